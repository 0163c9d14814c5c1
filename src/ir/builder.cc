#include "ir/builder.h"

namespace rlx {

const TensorType& Value::type() const {
  static const TensorType kNone;
  return builder && id ? builder->graph().type(id) : kNone;
}

Builder::Builder(std::string name, Stage stage) {
  graph_.name = std::move(name);
  graph_.stage = stage;
}

Value Builder::input(std::string_view name, DType dtype, Shape shape, SourceLoc at) {
  const Value v = emit(OpKind::Input, {},
                       Attrs::of(InputAttrs{std::string(name), dtype, std::move(shape)}), at);
  if (v.id) {
    for (const Port& p : graph_.inputs)
      if (p.name == name)
        fail(Error(Errc::BadGraph, "input name '" + std::string(name) + "' is used twice"), at);
    graph_.inputs.push_back({std::string(name), v.id});
  }
  return v;
}

Value Builder::constant(Literal literal, std::string_view name) {
  return emit(OpKind::Constant, {},
              Attrs::of(ConstantAttrs{std::string(name), std::move(literal)}));
}

Value Builder::scalar(DType dtype, double value) {
  return constant(Literal::scalar(dtype, value));
}

void Builder::setContext(std::string name, std::string location) {
  contextName_ = std::move(name);
  contextLocation_ = std::move(location);
}

void Builder::fail(Error error, SourceLoc at) {
  if (error_) return;
  std::string where = contextLocation_;
  if (where.empty() && at.line) where = std::string(at.file) + ":" + std::to_string(at.line);
  if (!contextName_.empty()) error = std::move(error).node(contextName_);
  if (!where.empty()) error = std::move(error).note("built at " + where);
  error_ = std::make_unique<Error>(std::move(error));
}

Value Builder::emit(OpKind op, std::vector<Value> inputs, Attrs attrs, SourceLoc at) {
  std::vector<Value> r = emitAll(op, std::move(inputs), std::move(attrs), {}, at);
  return r.empty() ? Value{this, {}} : r[0];
}

std::vector<Value> Builder::emitAll(OpKind op, std::vector<Value> inputs, Attrs attrs,
                                    std::vector<Graph> regions, SourceLoc at) {
  std::vector<TensorType> types;
  std::vector<bool> present;
  Node node;
  node.op = op;
  for (const Value& v : inputs) {
    RLX_CHECK(!v.builder || v.builder == this, "a value of another builder");
    types.push_back(v.type());
    present.push_back(static_cast<bool>(v));
    node.inputs.push_back(v.id);
  }
  if (!attrs.has() && opInfo(op).attrs == &attrsInfo<NoAttrs>()) attrs = Attrs::of(NoAttrs{});
  if (error_) return {Value{this, {}}};
  auto inferred = inferNode(op, types, present, attrs, regions);
  if (!inferred) {
    fail(std::move(inferred).error(), at);
    return {Value{this, {}}};
  }
  node.attrs = std::move(attrs);
  node.regions = std::move(regions);
  node.name = contextName_;
  node.location = contextLocation_;
  std::vector<Value> out;
  const NodeId id{static_cast<uint32_t>(graph_.nodes.size())};
  for (TensorType& t : *inferred) {
    const ValueId v{static_cast<uint32_t>(graph_.values.size())};
    graph_.values.push_back({std::move(t), id, static_cast<uint32_t>(out.size())});
    node.results.push_back(v);
    out.push_back({this, v});
  }
  graph_.nodes.push_back(std::move(node));
  return out;
}

void Builder::output(std::string_view name, Value value) {
  if (!value.id) {
    fail(Error(Errc::BadGraph, "output '" + std::string(name) + "' has no value"));
    return;
  }
  graph_.outputs.push_back({std::string(name), value.id});
}

Result<Graph> Builder::finish() && {
  if (error_) return std::move(*error_);
  RLX_OK(verify(graph_));
  return std::move(graph_);
}

}  // namespace rlx
