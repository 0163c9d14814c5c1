// Text and binary forms of a graph. One grammar serves both: the binary form is the text with large
// literals moved to a payload behind it.
#include <algorithm>
#include <cstring>

#include "ir/builder.h"
#include "ir/graph.h"

namespace rlx {
namespace {

// Literals replaced by an index into the payload print as `payload(i)`.
struct Payload {
  std::vector<Literal> literals;
};

void indent(std::string& out, int depth) {
  out.append(static_cast<std::size_t>(depth) * 2, ' ');
}

void printGraph(const Graph& g, const PrintOptions& options, Payload* payload, int depth,
                std::string& out) {
  out += "graph " + toText(g.name) + (g.stage == Stage::Model ? " model {\n" : " primitive {\n");
  for (const Node& n : g.nodes) {
    indent(out, depth + 1);
    for (std::size_t i = 0; i < n.results.size(); ++i)
      out +=
          (i ? ", %" : "%") + std::to_string(n.results[i].index) + ":" + text(g.type(n.results[i]));
    out += " = " + std::string(name(n.op)) + "(";
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      out += (i ? ", " : "") + (n.inputs[i] ? "%" + std::to_string(n.inputs[i].index) : "_");
    out += ")";
    if (n.op == OpKind::Constant) {
      const auto& c = n.attrs.as<ConstantAttrs>();
      out += " {name=" + toText(c.name) + " value=";
      const auto size = static_cast<int64_t>(c.value.bytes.size());
      if (payload && size > 64) {
        out += std::string(name(c.value.dtype)) + toText(c.value.shape) + "@" +
               std::to_string(payload->literals.size());
        payload->literals.push_back(c.value);
      } else if (size > options.maxLiteralBytes) {
        out += std::string(name(c.value.dtype)) + toText(c.value.shape) + " elided";
      } else {
        out += toText(c.value);
      }
      out += "}";
    } else if (const std::string a = n.attrs.text(); !a.empty()) {
      out += " " + a;
    }
    if (!n.name.empty()) out += " @" + toText(n.name);
    if (!n.location.empty()) out += " !" + toText(n.location);
    for (const Graph& r : n.regions) {
      out += " region ";
      printGraph(r, options, payload, depth + 1, out);
    }
    out += "\n";
  }
  for (const Port& p : g.outputs) {
    indent(out, depth + 1);
    out += "output " + toText(p.name) + " = %" + std::to_string(p.value.index) + "\n";
  }
  indent(out, depth);
  out += "}";
}

class GraphParser {
 public:
  GraphParser(std::string_view text, std::span<const std::byte> payload)
      : all_(text), t_(text), payload_(payload) {}

  Result<Graph> graph(int depth) {
    if (depth > 32) return fail("regions nested deeper than 32");
    Graph g;
    if (!word("graph") || !field(g.name)) return fail("expected graph \"name\"");
    if (word("model"))
      g.stage = Stage::Model;
    else if (word("primitive"))
      g.stage = Stage::Primitive;
    else
      return fail("expected 'model' or 'primitive'");
    if (!word("{")) return fail("expected '{'");
    while (!word("}")) {
      if (word("output")) {
        Port p;
        if (!field(p.name) || !word("=")) return fail("expected output \"name\" = %value");
        RLX_TRY(p.value, use(g));
        g.outputs.push_back(std::move(p));
        continue;
      }
      RLX_OK(node(g, depth));
    }
    return g;
  }
  bool done() {
    blanks();
    return t_.empty();
  }
  Error fail(std::string what) const {
    const std::size_t at = all_.size() - t_.size();
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < at; ++i)
      if (all_[i] == '\n')
        ++line, column = 1;
      else
        ++column;
    return Error(Errc::BadText, "line " + std::to_string(line) + ", column " +
                                    std::to_string(column) + ": " + std::move(what));
  }

 private:
  void blanks() {
    for (;;) {
      while (!t_.empty() && (t_[0] == ' ' || t_[0] == '\n' || t_[0] == '\r' || t_[0] == '\t'))
        t_.remove_prefix(1);
      if (t_.substr(0, 2) != "//") return;
      t_.remove_prefix(std::min(t_.size(), t_.find('\n')));
    }
  }
  bool word(std::string_view w) {
    blanks();
    if (t_.substr(0, w.size()) != w) return false;
    if (std::isalpha(static_cast<unsigned char>(w.back())) && t_.size() > w.size() &&
        (std::isalnum(static_cast<unsigned char>(t_[w.size()])) || t_[w.size()] == '_'))
      return false;
    t_.remove_prefix(w.size());
    return true;
  }
  template <class T>
  bool field(T& v) {
    blanks();
    return fromText(t_, v);
  }
  Result<ValueId> use(const Graph& g) {
    int64_t number = 0;
    if (!word("%") || !fromText(t_, number)) return fail("expected %value");
    if (number < 0 || static_cast<std::size_t>(number) >= g.values.size())
      return fail("%" + std::to_string(number) + " is not defined above");
    return ValueId{static_cast<uint32_t>(number)};
  }
  Result<TensorType> type() {
    TensorType t;
    if (!field(t.dtype) || !fromText(t_, t.shape)) return fail("expected a type such as f32[2,n]");
    return t;
  }
  Status node(Graph& g, int depth) {
    Node n;
    const NodeId id{static_cast<uint32_t>(g.nodes.size())};
    do {
      int64_t number = 0;
      if (!word("%") || !fromText(t_, number)) return fail("expected %result:type, output or '}'");
      if (static_cast<std::size_t>(number) != g.values.size() + n.results.size())
        return fail("values are numbered in order; expected %" +
                    std::to_string(g.values.size() + n.results.size()));
      if (!word(":")) return fail("expected ':'");
      RLX_TRY(TensorType t, type());
      pending_.push_back(std::move(t));
      n.results.push_back({static_cast<uint32_t>(number)});
    } while (word(","));
    std::vector<TensorType> types = std::move(pending_);
    pending_.clear();
    if (!word("=")) return fail("expected '='");
    blanks();
    std::size_t len = 0;
    while (len < t_.size() && (std::isalnum(static_cast<unsigned char>(t_[len])) || t_[len] == '_'))
      ++len;
    const auto op = parseOpKind(t_.substr(0, len));
    if (!op) return fail("unknown op '" + std::string(t_.substr(0, len)) + "'");
    n.op = *op;
    t_.remove_prefix(len);
    if (!word("(")) return fail("expected '('");
    if (!word(")")) {
      do {
        if (word("_")) {
          n.inputs.emplace_back();
        } else {
          RLX_TRY(const ValueId v, use(g));
          n.inputs.push_back(v);
        }
      } while (word(","));
      if (!word(")")) return fail("expected ')'");
    }
    const OpInfo& d = opInfo(n.op);
    blanks();
    if (n.op == OpKind::Constant) {
      RLX_TRY(n.attrs, constantAttrs());
    } else if (d.attrs) {
      auto a = d.attrs->parse(t_);
      if (!a)
        return fail("attributes of " + std::string(d.name) +
                    " do not parse; fields: " + std::string(d.attrs->fieldNames));
      n.attrs = Attrs(*d.attrs, std::move(a));
    }
    if (word("@") && !fromText(t_, n.name)) return fail("expected a quoted name");
    if (word("!") && !fromText(t_, n.location)) return fail("expected a quoted location");
    while (word("region")) {
      RLX_TRY(Graph r, graph(depth + 1));
      n.regions.push_back(std::move(r));
    }
    for (std::size_t i = 0; i < types.size(); ++i)
      g.values.push_back({std::move(types[i]), id, static_cast<uint32_t>(i)});
    if (n.op == OpKind::Input) g.inputs.push_back({n.attrs.as<InputAttrs>().name, n.results[0]});
    g.nodes.push_back(std::move(n));
    return Ok{};
  }
  Result<Attrs> constantAttrs() {
    ConstantAttrs a;
    if (!word("{name=") || !fromText(t_, a.name) || !word("value="))
      return fail("expected {name=... value=...}");
    const std::string_view start = t_;
    std::vector<int64_t> shape;
    DType dtype{};
    if (fromText(t_, dtype) && fromText(t_, shape) && !t_.empty() && t_[0] == '@') {
      t_.remove_prefix(1);
      RLX_TRY(a.value, payloadLiteral(dtype, std::move(shape)));
    } else {
      if (word("elided"))
        return fail("this text was printed without its constants and cannot be read back");
      t_ = start;
      if (!fromText(t_, a.value)) return fail("literal does not parse");
    }
    if (!word("}")) return fail("expected '}'");
    return Attrs::of(std::move(a));
  }
  Result<Literal> payloadLiteral(DType dtype, std::vector<int64_t> shape) {
    int64_t number = 0, n = 1;
    if (!fromText(t_, number)) return fail("expected a payload number");
    for (const int64_t e : shape)
      if (e < 0 || __builtin_mul_overflow(n, e, &n) || n > (int64_t{1} << 40))
        return fail("literal shape overflows");
    const auto size = static_cast<uint64_t>(storageBytes(dtype, n));
    if (size > payload_.size() - consumed_) return fail("payload is shorter than its literals");
    Literal v = Literal::copy(dtype, std::move(shape), payload_.subspan(consumed_, size));
    consumed_ += size;
    return v;
  }

  std::string_view all_, t_;
  std::span<const std::byte> payload_;
  std::size_t consumed_ = 0;
  std::vector<TensorType> pending_;
};

Result<Graph> parseAll(std::string_view text, std::span<const std::byte> payload) {
  GraphParser p(text, payload);
  RLX_TRY(Graph g, p.graph(0));
  if (!p.done()) return p.fail("text after the end of the graph");
  RLX_OK(verify(g));
  RLX_OK(checkSymbols(g));
  return g;
}

constexpr char kMagic[8] = {'R', 'L', 'X', 'G', '1', 0, 0, 0};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  std::string out;
  printGraph(graph, options, nullptr, 0, out);
  return out + "\n";
}

Result<Graph> parseGraph(std::string_view text) {
  return parseAll(text, {});
}

std::vector<std::byte> encode(const Graph& graph) {
  Payload payload;
  std::string head;
  printGraph(graph, {}, &payload, 0, head);
  std::vector<std::byte> out(sizeof kMagic + 8);
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  const uint64_t size = head.size();
  std::memcpy(out.data() + sizeof kMagic, &size, 8);
  const auto bytes = std::as_bytes(std::span(head));
  out.insert(out.end(), bytes.begin(), bytes.end());
  for (const Literal& v : payload.literals) out.insert(out.end(), v.bytes.begin(), v.bytes.end());
  return out;
}

Result<Graph> decodeGraph(std::span<const std::byte> bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof kMagic + 8 || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return Error(Errc::BadFile, "not an encoded graph: the magic bytes RLXG1 are missing");
  std::memcpy(&size, bytes.data() + sizeof kMagic, 8);
  bytes = bytes.subspan(sizeof kMagic + 8);
  if (size > bytes.size())
    return Error(Errc::FileTruncated, "encoded graph: header of " + std::to_string(size) +
                                          " bytes in " + std::to_string(bytes.size()));
  return parseAll({reinterpret_cast<const char*>(bytes.data()), size}, bytes.subspan(size));
}

}  // namespace rlx
