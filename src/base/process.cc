#include "base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace rlx {
namespace {

// What posix_spawn makes of a program that cannot be started, where it cannot say so itself.
constexpr int kNotStarted = 127;

Error processError(Errc code, const std::string& program, std::string_view reason) {
  return Error(code, "cannot run '" + program + "': " + std::string(reason));
}

Result<pid_t> spawn(std::span<const std::string> arguments, int output) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) {
    if (a.find('\0') != a.npos)
      return processError(Errc::InvalidArgument, arguments[0], "an argument contains a NUL byte");
    argv.push_back(const_cast<char*>(a.c_str()));  // posix_spawn does not write to them
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (const int code = ::posix_spawn_file_actions_init(&actions); code != 0)
    return processError(Errc::Io, arguments[0], std::strerror(code));
  int code = ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    if (code == 0) code = ::posix_spawn_file_actions_adddup2(&actions, output, stream);
  pid_t child = 0;
  if (code == 0) code = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code != 0)
    return processError(code == ENOENT ? Errc::NotFound : Errc::Io, arguments[0],
                        std::strerror(code));
  return child;
}

// Reads until every writer has closed the pipe.
std::string readPipe(int from, std::size_t maxBytes) {
  std::string out;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(from, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    out.append(buffer, std::min(static_cast<std::size_t>(n), maxBytes - out.size()));
  }
}

}  // namespace

Result<ProcessResult> runProcess(std::span<const std::string> arguments, std::size_t maxOutput) {
  if (arguments.empty() || arguments[0].empty())
    return Error(Errc::InvalidArgument, "no program is named");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return processError(Errc::Io, arguments[0], std::strerror(errno));
  auto child = spawn(arguments, ends[1]);
  ::close(ends[1]);
  ProcessResult out;
  if (child) out.output = readPipe(ends[0], maxOutput);
  ::close(ends[0]);
  if (!child) return std::move(child).error();
  int status = 0;
  while (::waitpid(*child, &status, 0) < 0)
    if (errno != EINTR) return processError(Errc::Io, arguments[0], std::strerror(errno));
  out.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (out.status == kNotStarted && out.output.empty())
    return processError(Errc::NotFound, arguments[0], "it cannot be started");
  return out;
}

}  // namespace rlx
