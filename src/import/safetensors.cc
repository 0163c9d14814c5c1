#include "import/safetensors.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/text.h"

namespace rlx {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own implementation
constexpr uint64_t kMaxIndexBytes = 100'000'000;
constexpr std::size_t kMaxRank = 64;

struct Spelling {
  std::string_view text;
  DType dtype;
};
constexpr Spelling kSpellings[] = {
    {"BOOL", DType::Bool},      {"U8", DType::U8},          {"I8", DType::I8},
    {"F8_E4M3", DType::F8E4M3}, {"F8_E5M2", DType::F8E5M2}, {"U16", DType::U16},
    {"I16", DType::I16},        {"F16", DType::F16},        {"BF16", DType::BF16},
    {"U32", DType::U32},        {"I32", DType::I32},        {"F32", DType::F32},
    {"U64", DType::U64},        {"I64", DType::I64},        {"F64", DType::F64},
    {"C64", DType::C64},        {"F4", DType::F4E2M1},
};

std::optional<DType> findDType(std::string_view text) {
  for (const Spelling& s : kSpellings)
    if (s.text == text) return s.dtype;
  return std::nullopt;
}

std::string quoted(std::string_view name) {
  return "'" + shorten(name, 120) + "'";
}

std::string shapeText(std::span<const int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

// The storage that a shape of non-negative extents takes, or nothing when it does not fit 63 bits.
std::optional<uint64_t> storageOf(DType dtype, std::span<const int64_t> shape) {
  uint64_t elements = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements))
      return std::nullopt;
  // A dtype's bytes per element are at most 16, so that storageBytes below cannot overflow.
  if (elements > static_cast<uint64_t>(INT64_MAX) / 16) return std::nullopt;
  return static_cast<uint64_t>(storageBytes(dtype, static_cast<int64_t>(elements)));
}

Result<SafetensorsEntry> parseEntry(const JsonMember& member, std::span<const std::byte> data) {
  const std::string tensor = "tensor " + quoted(member.key);
  SafetensorsEntry entry;
  entry.name = std::string(member.key);

  RLX_TRY(const JsonRef dtypeRef, member.value.member("dtype"));
  RLX_TRY(const std::string_view dtypeText, dtypeRef.asString());
  const auto dtype = findDType(dtypeText);
  if (!dtype) return Error(Errc::Unsupported, tensor + ": unknown dtype " + quoted(dtypeText));
  entry.dtype = *dtype;

  RLX_TRY(const JsonRef shapeRef, member.value.member("shape"));
  RLX_TRY(const auto extents, shapeRef.elements());
  if (extents.size() > kMaxRank)
    return Error(Errc::FileBudget, tensor + ": " + std::to_string(extents.size()) +
                                       " dimensions, the limit is " + std::to_string(kMaxRank));
  for (const JsonRef& ref : extents) {
    RLX_TRY(const int64_t extent, ref.asInt());
    if (extent < 0)
      return Error(Errc::BadFile, tensor + ": negative extent " + std::to_string(extent));
    entry.shape.push_back(extent);
  }

  RLX_TRY(const JsonRef offsetsRef, member.value.member("data_offsets"));
  RLX_TRY(const auto offsets, offsetsRef.elements());
  if (offsets.size() != 2)
    return Error(Errc::BadFile, tensor + ": data_offsets has " + std::to_string(offsets.size()) +
                                    " numbers, expected 2");
  RLX_TRY(entry.begin, offsets[0].asUint());
  RLX_TRY(entry.end, offsets[1].asUint());
  const std::string range =
      "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
  if (entry.begin > entry.end)
    return Error(Errc::BadFile, tensor + ": data_offsets " + range + " end before they begin");

  const auto needed = storageOf(entry.dtype, entry.shape);
  if (!needed)
    return Error(Errc::BadFile, tensor + ": the size of shape " + shapeText(entry.shape) + " of " +
                                    std::string(dtypeText) + " overflows");
  if (*needed != entry.end - entry.begin)
    return Error(Errc::BadFile, tensor + ": shape " + shapeText(entry.shape) + " of " +
                                    std::string(dtypeText) + " needs " + std::to_string(*needed) +
                                    " bytes, data_offsets " + range + " give " +
                                    std::to_string(entry.end - entry.begin));
  if (entry.end > data.size())
    return Error(Errc::FileTruncated, tensor + ": data_offsets " + range + " end after the " +
                                          std::to_string(data.size()) + " bytes of data");
  entry.data = data.subspan(static_cast<std::size_t>(entry.begin),
                            static_cast<std::size_t>(entry.end - entry.begin));
  return entry;
}

// The tensors must tile the data section: no byte twice, none unused.
Status checkTiling(std::span<const SafetensorsEntry> entries, uint64_t dataBytes) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t covered = 0;
  const SafetensorsEntry* last = nullptr;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin < covered)
      return Error(Errc::BadFile, "tensor " + quoted(entry->name) + " begins at " +
                                      std::to_string(entry->begin) + " and overlaps tensor " +
                                      quoted(last->name) + ", which ends at " +
                                      std::to_string(covered));
    if (entry->begin > covered)
      return Error(Errc::BadFile, "tensor " + quoted(entry->name) + " begins at " +
                                      std::to_string(entry->begin) + " and leaves a gap after " +
                                      std::to_string(covered));
    covered = entry->end;
    last = entry;
  }
  if (covered != dataBytes)
    return Error(Errc::BadFile, "the tensors end at " + std::to_string(covered) + " of " +
                                    std::to_string(dataBytes) + " bytes of data");
  return Ok{};
}

Result<Safetensors> parseHeader(const std::shared_ptr<const MappedFile>& file) {
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < 8)
    return Error(Errc::FileTruncated,
                 std::to_string(bytes.size()) + " bytes, the header's length alone takes 8");
  uint64_t headerBytes = 0;
  for (std::size_t i = 0; i < 8; ++i) headerBytes |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (headerBytes > kMaxHeaderBytes)
    return Error(Errc::FileBudget, "header of " + std::to_string(headerBytes) +
                                       " bytes, the limit is " + std::to_string(kMaxHeaderBytes));
  if (headerBytes > bytes.size() - 8)
    return Error(Errc::FileTruncated, "header of " + std::to_string(headerBytes) +
                                          " bytes, the file has " +
                                          std::to_string(bytes.size() - 8) + " after the length");
  const std::string_view header = file->text().substr(8, static_cast<std::size_t>(headerBytes));
  if (!header.starts_with('{')) return Error(Errc::BadFile, "the header does not begin with '{'");
  RLX_TRY(const JsonDocument document,
          parseJson(header, {.maxBytes = kMaxHeaderBytes, .maxDepth = 8}));
  RLX_TRY(const auto members, document.root().members());

  const auto data = bytes.subspan(8 + static_cast<std::size_t>(headerBytes));
  Safetensors out;
  for (const JsonMember& member : members) {
    if (member.key == "__metadata__") {
      RLX_TRY(const auto pairs, member.value.members());
      for (const JsonMember& pair : pairs) {
        RLX_TRY(const std::string_view text, pair.value.asString());
        out.metadata.emplace_back(pair.key, text);
      }
      continue;
    }
    RLX_TRY(SafetensorsEntry entry, parseEntry(member, data));
    entry.file = file;
    out.entries.push_back(std::move(entry));
  }
  RLX_OK(checkTiling(out.entries, data.size()));
  return out;
}

Result<Safetensors> openFile(const std::string& path) {
  RLX_TRY(auto file, MappedFile::open(path));
  return parseSafetensors(std::move(file));
}

struct Shard {
  std::string file;
  Safetensors tensors;
};

Result<Safetensors> parseIndex(const std::string& path) {
  RLX_TRY(const JsonDocument index, readJson(path, {.maxBytes = kMaxIndexBytes, .maxDepth = 8}));
  RLX_TRY(const JsonRef map, index.root().member("weight_map"));
  RLX_TRY(const auto weights, map.members());
  const std::string folder(parentPath(path));
  std::vector<Shard> shards;
  Safetensors out;
  for (const JsonMember& weight : weights) {
    RLX_TRY(const std::string_view name, weight.value.asString());
    auto shard =
        std::find_if(shards.begin(), shards.end(), [&](const Shard& s) { return s.file == name; });
    if (shard == shards.end()) {
      RLX_TRY(const std::string file, resolveInside(folder, name));
      RLX_TRY(Safetensors tensors, openFile(file));
      shards.push_back({std::string(name), std::move(tensors)});
      shard = shards.end() - 1;
    }
    RLX_TRY(const SafetensorsEntry* entry, shard->tensors.at(weight.key));
    out.entries.push_back(*entry);
  }
  return out;
}

}  // namespace

const SafetensorsEntry* Safetensors::find(std::string_view name) const {
  const auto it = std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const SafetensorsEntry& entry, std::string_view key) { return entry.name < key; });
  return it != entries.end() && it->name == name ? &*it : nullptr;
}

Result<const SafetensorsEntry*> Safetensors::at(std::string_view name) const {
  if (const SafetensorsEntry* entry = find(name)) return entry;
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  Error error(Errc::NotFound, "no tensor " + quoted(name));
  const std::string_view near = nearestName(name, names);
  if (near.empty()) return error;
  return std::move(error).hint("did you mean " + quoted(near) + "?");
}

Result<Safetensors> parseSafetensors(std::shared_ptr<const MappedFile> file) {
  auto parsed = parseHeader(file);
  if (!parsed)
    return std::move(parsed).error().note("while reading '" + file->path() + "' as safetensors");
  return parsed;
}

Result<Safetensors> readSafetensors(const std::string& path) {
  if (path.ends_with(".json")) {
    auto parsed = parseIndex(path);
    if (!parsed)
      return std::move(parsed).error().note("while reading the shards of '" + path + "'");
    return parsed;
  }
  if (pathKind(path) != PathKind::Folder) return openFile(path);
  const std::string single = joinPath(path, "model.safetensors");
  const std::string index = joinPath(path, "model.safetensors.index.json");
  if (pathKind(single) == PathKind::Missing && pathKind(index) != PathKind::Missing)
    return readSafetensors(index);
  return openFile(single);
}

std::string_view safetensorsName(DType dtype) {
  for (const Spelling& s : kSpellings)
    if (s.dtype == dtype) return s.text;
  return {};
}

Status writeSafetensors(const std::string& path, std::span<const SafetensorsItem> items,
                        std::span<const std::pair<std::string, std::string>> metadata) {
  std::vector<const SafetensorsItem*> order;
  for (const SafetensorsItem& item : items) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(-bytes(a->dtype), a->name) < std::pair(-bytes(b->dtype), b->name);
  });

  std::vector<std::string_view> names;
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += quoteJson(key) + ":" + quoteJson(value);
    }
    header += '}';
  }
  uint64_t at = 0;
  for (const SafetensorsItem* item : order) {
    const std::string tensor = "tensor " + quoted(item->name);
    const std::string_view dtype = safetensorsName(item->dtype);
    if (dtype.empty())
      return Error(Errc::InvalidArgument,
                   tensor + ": safetensors has no dtype " + std::string(name(item->dtype)));
    if (!isUtf8(item->name) || item->name == "__metadata__")
      return Error(Errc::InvalidArgument, tensor + ": not a name for a tensor");
    for (const int64_t extent : item->shape)
      if (extent < 0)
        return Error(Errc::InvalidArgument, tensor + ": negative extent " + std::to_string(extent));
    const auto needed = storageOf(item->dtype, item->shape);
    if (!needed || *needed != item->data.size())
      return Error(Errc::InvalidArgument, tensor + ": shape " + shapeText(item->shape) + " of " +
                                              std::string(dtype) + " does not take " +
                                              std::to_string(item->data.size()) + " bytes");
    names.push_back(item->name);
    if (header.size() > 1) header += ',';
    header += quoteJson(item->name) + ":{\"dtype\":\"" + std::string(dtype) +
              "\",\"shape\":" + shapeText(item->shape) + ",\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(at + *needed) + "]}";
    at += *needed;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return Error(Errc::InvalidArgument, "two tensors are called " + quoted(*twice));

  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  std::vector<std::string_view> pieces = {length, header};
  for (const SafetensorsItem* item : order)
    pieces.emplace_back(reinterpret_cast<const char*>(item->data.data()), item->data.size());
  return writeFileAtomic(path, pieces);
}

}  // namespace rlx
