#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/result.h"

namespace rlx {
namespace {

constexpr std::size_t kMaxNameBytes = 128;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

std::string lowered(std::string_view text) {
  std::string out(text.substr(0, kMaxNameBytes));
  for (char& c : out) c = lower(c);
  return out;
}

uint32_t decode(std::string_view text, int length) {
  const auto byte = [&](int i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[static_cast<std::size_t>(i)]));
  };
  switch (length) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3: return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 |
             (byte(3) & 0x3f);
  }
}

// Blocks that terminals draw in two columns; close enough for aligning a table.
bool isWide(uint32_t c) {
  return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
         (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
         (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) ||
         (c >= 0x20000 && c <= 0x3fffd);
}
bool isCombining(uint32_t c) {
  return (c >= 0x300 && c <= 0x36f) || (c >= 0x1ab0 && c <= 0x1aff) ||
         (c >= 0x20d0 && c <= 0x20ff) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0x200d || c == 0x200b;
}

std::string threeDigits(double value) {
  char buffer[32];
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

}  // namespace

int editDistance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rows. Long names are compared by their beginnings.
  a = a.substr(0, kMaxNameBytes);
  b = b.substr(0, kMaxNameBytes);
  std::array<int, kMaxNameBytes + 1> before = {};
  std::array<int, kMaxNameBytes + 1> last = {};
  std::array<int, kMaxNameBytes + 1> row = {};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int cost = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string wanted = lowered(name);
  int best = std::max(1, static_cast<int>(wanted.size()) / 3) + 1;
  std::string_view nearest;
  for (const std::string_view candidate : candidates) {
    const int distance = editDistance(wanted, lowered(candidate));
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string didYouMean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view nearest = nearestName(name, candidates);
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

std::string humanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 and more would print as 1024.
  while (value >= 1023.5 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return threeDigits(value) + " " + kUnits[unit];
}

std::string humanSeconds(double seconds) {
  if (std::isnan(seconds)) return "unknown";
  if (seconds < 0) return std::string("-").append(humanSeconds(-seconds));
  if (std::isinf(seconds)) return "forever";
  if (seconds == 0) return "0 s";
  if (seconds < 999.5e-9) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.0f ns", seconds * 1e9);
    return buffer;
  }
  if (seconds < 999.5e-6) return threeDigits(seconds * 1e6) + " us";
  if (seconds < 999.5e-3) return threeDigits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return threeDigits(seconds) + " s";
  if (seconds >= 1e15) return groupDigits(static_cast<uint64_t>(std::min(seconds, 1e19))) + " s";
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  char buffer[64];
  if (whole < 3600)
    std::snprintf(buffer, sizeof buffer, "%u min %02u s", static_cast<unsigned>(whole / 60),
                  static_cast<unsigned>(whole % 60));
  else
    std::snprintf(buffer, sizeof buffer, "%llu h %02u min",
                  static_cast<unsigned long long>(whole / 3600),
                  static_cast<unsigned>(whole / 60 % 60));
  return buffer;
}

std::string groupDigits(uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

int utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const int length = lead >= 0xc2 && lead <= 0xdf   ? 2
                     : lead >= 0xe0 && lead <= 0xef ? 3
                     : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                    : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return 0;
  for (int i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[static_cast<std::size_t>(i)]) & 0xc0) != 0x80) return 0;
  const uint32_t code = decode(text, length);
  if (length == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) return 0;
  if (length == 4 && (code < 0x10000 || code > 0x10ffff)) return 0;
  return length;
}

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    const int length = utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return true;
}

int displayWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const int length = utf8Length(text);
    const uint32_t code = length == 0 ? 0 : decode(text, length);
    width += isCombining(code) ? 0 : isWide(code) ? 2 : 1;
    text.remove_prefix(static_cast<std::size_t>(std::max(1, length)));
  }
  return width;
}

std::string shorten(std::string_view text, std::size_t maxBytes) {
  if (text.size() <= maxBytes) return std::string(text);
  std::size_t end = maxBytes > 3 ? maxBytes - 3 : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

Table::Table(std::vector<std::string> titles, std::vector<Align> align)
    : titles_(std::move(titles)), align_(std::move(align)) {
  align_.resize(titles_.size(), Align::Left);
}

void Table::row(std::vector<std::string> cells) {
  RLX_CHECK(cells.size() <= titles_.size(), "a row has more cells than the table has columns");
  cells.resize(titles_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<int> width(titles_.size(), 0);
  const auto measure = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      width[i] = std::max(width[i], displayWidth(cells[i]));
  };
  measure(titles_);
  for (const auto& cells : rows_) measure(cells);

  std::string out;
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto padding = static_cast<std::size_t>(width[i] - displayWidth(cells[i]));
      if (i > 0) line += "  ";
      if (align_[i] == Align::Right) line.append(padding, ' ');
      line += cells[i];
      if (align_[i] == Align::Left) line.append(padding, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  print(titles_);
  for (const auto& cells : rows_) print(cells);
  return out;
}

}  // namespace rlx
