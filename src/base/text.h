// Text for people: nearest names, sizes and durations, tables, and the UTF-8 check that every
// reader of names shares.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, in bytes.
int editDistance(std::string_view a, std::string_view b);
// The candidate nearest to `name` when it is near enough to be a misspelling (a third of the
// letters, case ignored), the first of equals; empty when none is.
std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates);
// "; did you mean 'x'?" for a message, or nothing.
std::string didYouMean(std::string_view name, std::span<const std::string_view> candidates);

// "512 B", "1.50 KiB", "87.2 MiB": binary units, three significant digits.
std::string humanBytes(uint64_t bytes);
// "850 ns", "12.5 us", "3.40 ms", "2.10 s", "4 min 05 s".
std::string humanSeconds(double seconds);
// "1234567" with thin groups: "1,234,567".
std::string groupDigits(uint64_t number);

// The length in bytes of the UTF-8 sequence that `text` starts with, or 0 when it is not one (too
// long a form, a surrogate, above U+10FFFF, cut off, or empty).
int utf8Length(std::string_view text);
bool isUtf8(std::string_view text);
// Columns that `text` takes on a terminal: code points, wide ones twice, combining marks none.
int displayWidth(std::string_view text);
// At most `maxBytes` of the text, cut between code points, with "..." when something was cut.
std::string shorten(std::string_view text, std::size_t maxBytes);

// A table for the terminal: columns as wide as their widest cell, two blanks apart, no blanks at
// the end of a line.
class Table {
 public:
  enum class Align : uint8_t { Left, Right };
  // `columns`: titles; numbers are set to the right by their column's alignment.
  explicit Table(std::vector<std::string> titles, std::vector<Align> align = {});
  // Missing cells are empty; a cell too many is our own bug.
  void row(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::string> titles_;
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rlx
