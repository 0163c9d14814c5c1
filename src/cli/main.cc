#include "cli/cli.h"

int main(int argc, char** argv) {
  return rlx::cli::main(argc, argv);
}
