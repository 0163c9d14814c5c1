#include "base/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace rlx {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are handed out as stored");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;
constexpr uint64_t kMaxItemBytes = uint64_t{1} << 30;

Error bad(const std::string& path, std::string message) {
  return Error(Errc::BadFile, "'" + path + "' as .npy: " + std::move(message));
}

// The header is a Python dict with three entries; this reads that and nothing more.
struct HeaderReader {
  std::string_view text;
  std::size_t at = 0;

  void blanks() {
    while (at < text.size() &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
      ++at;
  }
  bool take(char c) {
    blanks();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  bool take(std::string_view word) {
    blanks();
    if (!text.substr(at).starts_with(word)) return false;
    at += word.size();
    return true;
  }
  bool quoted(std::string_view& out) {
    blanks();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"')) return false;
    const std::size_t end = text.find(text[at], at + 1);
    if (end == text.npos) return false;
    out = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return out.find('\\') == out.npos;
  }
  bool extent(int64_t& out) {
    blanks();
    const char* const begin = text.data() + at;
    const auto [end, failure] = std::from_chars(begin, text.data() + text.size(), out);
    if (failure != std::errc() || out < 0) return false;
    at += static_cast<std::size_t>(end - begin);
    if (at < text.size() && text[at] == 'L') ++at;  // written by Python 2
    return true;
  }
  std::string here() const {
    return "at byte " + std::to_string(at) + " of the header, near '" +
           shorten(text.substr(std::min(at, text.size())), 20) + "'";
  }
};

struct Header {
  std::string_view descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

Result<Header> parseHeader(const std::string& path, std::string_view text) {
  HeaderReader in{text};
  Header out;
  bool seenDescr = false;
  bool seenOrder = false;
  bool seenShape = false;
  if (!in.take('{')) return bad(path, "expected '{' " + in.here());
  while (!in.take('}')) {
    std::string_view key;
    if (!in.quoted(key)) return bad(path, "expected a key " + in.here());
    if (!in.take(':')) return bad(path, "expected ':' " + in.here());
    bool* seen = key == "descr"           ? &seenDescr
                 : key == "fortran_order" ? &seenOrder
                 : key == "shape"         ? &seenShape
                                          : nullptr;
    if (!seen) return bad(path, "unknown header entry '" + shorten(key, 40) + "'");
    if (*seen) return bad(path, "duplicate header entry '" + std::string(key) + "'");
    *seen = true;
    if (seen == &seenDescr) {
      if (in.take('[')) return Error(Errc::Unsupported, "'" + path + "' as .npy: structured dtype");
      if (!in.quoted(out.descr)) return bad(path, "expected a dtype " + in.here());
    } else if (seen == &seenOrder) {
      out.fortran = in.take("True");
      if (!out.fortran && !in.take("False"))
        return bad(path, "expected True or False " + in.here());
    } else {
      if (!in.take('(')) return bad(path, "expected a shape " + in.here());
      while (!in.take(')')) {
        int64_t extent = 0;
        if (!in.extent(extent)) return bad(path, "expected an extent " + in.here());
        if (out.shape.size() == kMaxRank)
          return bad(path, "more than " + std::to_string(kMaxRank) + " dimensions");
        out.shape.push_back(extent);
        if (!in.take(',') && !in.text.substr(in.at).starts_with(")"))
          return bad(path, "expected ',' or ')' " + in.here());
      }
    }
    in.take(',');
  }
  in.blanks();
  if (in.at != text.size()) return bad(path, "text after the header's '}' " + in.here());
  if (!seenDescr) return bad(path, "the header has no 'descr'");
  if (!seenOrder) return bad(path, "the header has no 'fortran_order'");
  if (!seenShape) return bad(path, "the header has no 'shape'");
  return out;
}

struct Element {
  char kind = 0;
  bool big = false;
  uint64_t bytes = 0;
  // Bytes that are reversed together when the order is not ours.
  uint64_t swapUnit = 1;
};

Result<Element> parseDescr(std::string_view descr) {
  const auto fail = [&](Errc code, std::string_view why) {
    return Error(code, "dtype '" + shorten(descr, 40) + "': " + std::string(why));
  };
  std::string_view rest = descr;
  Element out;
  if (!rest.empty() && (rest[0] == '<' || rest[0] == '>' || rest[0] == '|' || rest[0] == '=')) {
    out.big = rest[0] == '>';
    rest.remove_prefix(1);
  }
  if (rest.empty()) return fail(Errc::BadFile, "not a NumPy type");
  out.kind = rest[0];
  uint64_t size = 0;
  const auto [end, failure] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), size);
  if (out.kind == 'O') return fail(Errc::Unsupported, "Python objects cannot be read");
  if (failure != std::errc() || end != rest.data() + rest.size())
    return fail(Errc::BadFile, "not a NumPy type");
  const auto oneOf = [&](std::initializer_list<uint64_t> sizes) {
    return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
  };
  bool known = false;
  switch (out.kind) {
    case 'b': known = oneOf({1}); break;
    case 'i':
    case 'u': known = oneOf({1, 2, 4, 8}); break;
    case 'f': known = oneOf({2, 4, 8}); break;
    case 'c': known = oneOf({8, 16}); break;
    case 'V':
    case 'S':
    case 'U': known = size >= 1 && size <= kMaxItemBytes; break;
    default: break;
  }
  if (!known) return fail(Errc::Unsupported, "no such element type here");
  out.bytes = out.kind == 'U' ? size * 4 : size;
  out.swapUnit = out.kind == 'c' ? size / 2 : out.kind == 'U' ? 4 : size;
  if (out.kind == 'V' || out.kind == 'S') out.swapUnit = 1;
  return out;
}

// The bytes of the array, or nothing when they do not fit 63 bits.
bool totalBytes(std::span<const int64_t> shape, uint64_t itemBytes, uint64_t& out) {
  uint64_t total = itemBytes;
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return false;
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(extent), &total) ||
        total > static_cast<uint64_t>(INT64_MAX))
      return false;
  }
  out = empty ? 0 : total;
  return true;
}

std::string shapeText(std::span<const int64_t> shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + (shape.size() == 1 ? ",)" : ")");
}

// Column-major to row-major.
std::string toRowMajor(std::string_view data, std::span<const int64_t> shape, std::size_t item) {
  std::string out(data.size(), '\0');
  const std::size_t rank = shape.size();
  std::array<std::size_t, kMaxRank> stride = {};
  std::size_t step = item;
  for (std::size_t d = 0; d < rank; ++d) {
    stride[d] = step;
    step *= static_cast<std::size_t>(shape[d]);
  }
  std::array<int64_t, kMaxRank> index = {};
  std::size_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += item) {
    std::memcpy(out.data() + to, data.data() + from, item);
    for (std::size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape[d]) break;
      from -= stride[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Result<NpyArray> parseNpy(std::shared_ptr<const MappedFile> file) {
  const std::string& path = file->path();
  const std::string_view bytes = file->text();
  if (!bytes.starts_with(kMagic)) return bad(path, "the file does not start with \\x93NUMPY");
  if (bytes.size() < 10)
    return Error(Errc::FileTruncated, "'" + path + "' as .npy: the file ends in its preamble");
  const auto byteAt = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const std::size_t version = byteAt(6);
  if (version < 1 || version > 3 || byteAt(7) != 0)
    return Error(Errc::Unsupported, "'" + path + "' as .npy: version " + std::to_string(version) +
                                        "." + std::to_string(byteAt(7)));
  const std::size_t preamble = version == 1 ? 10 : 12;
  if (bytes.size() < preamble)
    return Error(Errc::FileTruncated, "'" + path + "' as .npy: the file ends in its preamble");
  std::size_t headerBytes = byteAt(8) | byteAt(9) << 8;
  if (version > 1) headerBytes |= byteAt(10) << 16 | byteAt(11) << 24;
  if (headerBytes > bytes.size() - preamble)
    return Error(Errc::FileTruncated, "'" + path + "' as .npy: header of " +
                                          std::to_string(headerBytes) + " bytes in a file of " +
                                          std::to_string(bytes.size()));
  if (headerBytes > kMaxHeaderBytes)
    return Error(Errc::FileBudget, "'" + path + "' as .npy: header of " +
                                       std::to_string(headerBytes) + " bytes, the limit is " +
                                       std::to_string(kMaxHeaderBytes));
  RLX_TRY(Header header, parseHeader(path, bytes.substr(preamble, headerBytes)));
  auto parsed = parseDescr(header.descr);
  if (!parsed) return std::move(parsed).error().note("while reading '" + path + "'");
  const Element element = *parsed;

  uint64_t needed = 0;
  if (!totalBytes(header.shape, element.bytes, needed))
    return bad(path, "the size of shape " + shapeText(header.shape) + " overflows");
  const std::string_view rest = bytes.substr(preamble + headerBytes);
  if (needed > rest.size())
    return Error(Errc::FileTruncated, "'" + path + "' as .npy: shape " + shapeText(header.shape) +
                                          " of '" + std::string(header.descr) + "' needs " +
                                          std::to_string(needed) + " bytes, the file has " +
                                          std::to_string(rest.size()));
  NpyArray out;
  out.dtype = element.swapUnit == 1 ? "|" : "<";
  out.dtype += header.descr.substr(header.descr.find(element.kind));
  out.itemBytes = static_cast<std::size_t>(element.bytes);
  out.shape = std::move(header.shape);
  const std::string_view data = rest.substr(0, static_cast<std::size_t>(needed));
  const bool reorder = header.fortran && out.shape.size() > 1 && needed > 0;
  const bool swap = element.big && element.swapUnit > 1;
  out.owner = std::move(file);
  out.data = std::as_bytes(std::span(data));
  if (!reorder && !swap) return out;

  std::string copy = reorder ? toRowMajor(data, out.shape, out.itemBytes) : std::string(data);
  if (swap)
    for (std::size_t i = 0; i < copy.size(); i += static_cast<std::size_t>(element.swapUnit))
      std::reverse(copy.data() + i, copy.data() + i + element.swapUnit);
  out.owner = MappedFile::fromBytes(out.owner->path(), std::move(copy));
  out.data = out.owner->bytes();
  return out;
}

Result<NpyArray> readNpy(const std::string& path) {
  RLX_TRY(auto file, MappedFile::open(path));
  return parseNpy(std::move(file));
}

Result<std::string> encodeNpy(std::string_view dtype, std::span<const int64_t> shape,
                              std::span<const std::byte> data) {
  RLX_TRY(const Element element, parseDescr(dtype));
  if (element.big)
    return Error(Errc::InvalidArgument, "dtype '" + std::string(dtype) + "': big-endian");
  uint64_t needed = 0;
  if (shape.size() > kMaxRank || !totalBytes(shape, element.bytes, needed) || needed != data.size())
    return Error(Errc::InvalidArgument, "shape " + shapeText(shape) + " of '" + std::string(dtype) +
                                            "' needs " + std::to_string(needed) +
                                            " bytes, given are " + std::to_string(data.size()));
  std::string header = "{'descr': '" + std::string(dtype) +
                       "', 'fortran_order': False, 'shape': " + shapeText(shape) + ", }";
  // The data starts at a multiple of 64 bytes. 64 extents of 19 digits still fit version 1.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  return out;
}

Status writeNpy(const std::string& path, std::string_view dtype, std::span<const int64_t> shape,
                std::span<const std::byte> data) {
  RLX_TRY(const std::string bytes, encodeNpy(dtype, shape, data));
  return writeFileAtomic(path, bytes);
}

}  // namespace rlx
