#include "model/bert.h"

#include "base/file.h"
#include "base/json.h"
#include "import/safetensors.h"
#include "ops/value_ops.h"

namespace rlx {
namespace {

struct Config {
  int64_t hidden = 0, layers = 0, heads = 0, intermediate = 0, vocabulary = 0, positions = 0,
          types = 0;
  double epsilon = 1e-12;
  std::string activation;
};

Result<Config> readConfig(const std::string& folder) {
  RLX_TRY(const JsonDocument doc, readJson(joinPath(folder, "config.json")));
  const JsonRef j = doc.root();
  Config c;
  RLX_TRY(const std::string kind, j.stringOr("model_type", ""));
  if (kind != "bert")
    return Error(Errc::Unsupported,
                 "config.json: model_type '" + kind + "'; folders of type 'bert' can be loaded");
  auto positive = [&](const char* key, int64_t* to) -> Status {
    RLX_TRY(const JsonRef v, j.at(key));
    RLX_TRY(*to, v.asInt());
    if (*to < 1 || *to > (int64_t{1} << 24))
      return Error(Errc::BadFile,
                   std::string("config.json: ") + key + " is " + std::to_string(*to));
    return Ok{};
  };
  RLX_OK(positive("hidden_size", &c.hidden));
  RLX_OK(positive("num_hidden_layers", &c.layers));
  RLX_OK(positive("num_attention_heads", &c.heads));
  RLX_OK(positive("intermediate_size", &c.intermediate));
  RLX_OK(positive("vocab_size", &c.vocabulary));
  RLX_OK(positive("max_position_embeddings", &c.positions));
  RLX_OK(positive("type_vocab_size", &c.types));
  RLX_TRY(c.epsilon, j.doubleOr("layer_norm_eps", 1e-12));
  RLX_TRY(c.activation, j.stringOr("hidden_act", "gelu"));
  RLX_TRY(const std::string positions, j.stringOr("position_embedding_type", "absolute"));
  if (positions != "absolute")
    return Error(Errc::Unsupported, "config.json: position_embedding_type '" + positions +
                                        "'; 'absolute' can be loaded");
  if (c.hidden % c.heads != 0)
    return Error(Errc::BadFile, "config.json: hidden_size " + std::to_string(c.hidden) +
                                    " is no multiple of " + std::to_string(c.heads) + " heads");
  if (c.layers > 1000) return Error(Errc::FileBudget, "config.json: more than 1000 layers");
  return c;
}

class BertBuilder {
 public:
  BertBuilder(const Config& c, const Safetensors& weights) : c_(c), weights_(weights), b_("bert") {}

  Result<Graph> build(BertHead head) {
    const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
    const Value ids = b_.input("input_ids", DType::I64, {batch, seq});
    const Value mask = b_.input("attention_mask", DType::I64, {batch, seq});
    const Value types = b_.input("token_type_ids", DType::I64, {batch, seq});
    const DType t = DType::F32;
    const Value word =
        b_.emit(OpKind::Embedding,
                {weight("embeddings.word_embeddings.weight", {c_.vocabulary, c_.hidden}), ids});
    const Value type =
        b_.emit(OpKind::Embedding,
                {weight("embeddings.token_type_embeddings.weight", {c_.types, c_.hidden}), types});
    const Value position =
        slice(weight("embeddings.position_embeddings.weight", {c_.positions, c_.hidden}),
              {Dim(0), Dim(0)}, {seq, Dim(c_.hidden)});
    Value x = norm(word + type + position, "embeddings.LayerNorm");
    const Value allowed =
        reshape(emitScalar(ScalarOp::Ne, {mask, literal(mask, 0)}), {batch, Dim(1), Dim(1), seq});
    const Dim heads(c_.heads), size(c_.hidden / c_.heads);
    for (int64_t l = 0; l < c_.layers && !b_.failed() && !missing_; ++l) {
      const std::string p = "encoder.layer." + std::to_string(l) + ".";
      b_.setContext(p + "attention", "");
      auto split = [&](const char* name) {
        return transpose(reshape(dense(x, p + "attention.self." + name, c_.hidden, c_.hidden),
                                 {batch, seq, heads, size}),
                         {0, 2, 1, 3});
      };
      const Value q = split("query"), k = split("key"), v = split("value");
      const Value a = b_.emit(OpKind::Attention, {q, k, v, allowed}, Attrs::of(AttentionAttrs{}));
      const Value joined = reshape(transpose(a, {0, 2, 1, 3}), {batch, seq, Dim(c_.hidden)});
      x = norm(dense(joined, p + "attention.output.dense", c_.hidden, c_.hidden) + x,
               p + "attention.output.LayerNorm");
      b_.setContext(p + "feed_forward", "");
      const Value h = activate(dense(x, p + "intermediate.dense", c_.intermediate, c_.hidden));
      x = norm(dense(h, p + "output.dense", c_.hidden, c_.intermediate) + x,
               p + "output.LayerNorm");
    }
    b_.setContext({}, {});
    if (missing_) return std::move(*missing_);
    if (head == BertHead::HiddenState) {
      b_.output("last_hidden_state", x);
    } else {
      const Value m = reshape(convert(mask, t), {batch, seq, Dim(1)});
      const Value sum = reduce(x * m, ReduceKind::Sum, {1}, KeepDims::No);
      const Value count = emitScalar(
          ScalarOp::Max, {reduce(m, ReduceKind::Sum, {1}, KeepDims::No), literal(x, 1e-9)});
      const Value mean = sum / count;
      const Value length =
          emitScalar(ScalarOp::Sqrt, {reduce(mean * mean, ReduceKind::Sum, {1}, KeepDims::Yes)});
      b_.output("sentence_embedding",
                mean / emitScalar(ScalarOp::Max, {length, literal(length, 1e-12)}));
    }
    return std::move(b_).finish();
  }

 private:
  Value weight(const std::string& name, std::vector<int64_t> shape) {
    const SafetensorsEntry* e = weights_.find(name);
    if (!e) e = weights_.find("bert." + name);
    if (!e) {
      if (!missing_)
        missing_ = std::make_unique<Error>(Errc::NotFound,
                                           "model.safetensors has no tensor '" + name + "'");
      return b_.constant(Literal::scalar(DType::F32, 0));
    }
    if (e->shape != shape || !isFloat(e->dtype)) {
      if (!missing_)
        missing_ = std::make_unique<Error>(
            Errc::BadFile, "tensor '" + e->name + "' has type " + std::string(rlx::name(e->dtype)) +
                               toText(e->shape) + ", config.json asks for f32" + toText(shape));
      return b_.constant(Literal::scalar(DType::F32, 0));
    }
    Literal v;
    v.dtype = e->dtype, v.shape = e->shape, v.bytes = e->data, v.owner = e->file;
    return convert(b_.constant(std::move(v), name), DType::F32);
  }
  Value dense(Value x, const std::string& name, int64_t out, int64_t in) {
    return linear(x, weight(name + ".weight", {out, in}), weight(name + ".bias", {out}),
                  TransposeWeight::Yes);
  }
  Value norm(Value x, const std::string& name) {
    return layerNorm(x, weight(name + ".weight", {c_.hidden}), weight(name + ".bias", {c_.hidden}),
                     -1, c_.epsilon);
  }
  Value activate(Value x) {
    if (c_.activation == "gelu") return b_.emit(OpKind::Gelu, {x});
    if (c_.activation == "gelu_new" || c_.activation == "gelu_pytorch_tanh")
      return b_.emit(OpKind::GeluTanh, {x});
    if (c_.activation == "relu") return b_.emit(OpKind::Relu, {x});
    b_.fail(Error(Errc::Unsupported, "config.json: hidden_act '" + c_.activation +
                                         "'; gelu, gelu_new and relu can be loaded"));
    return x;
  }

  const Config& c_;
  const Safetensors& weights_;
  Builder b_;
  std::unique_ptr<Error> missing_;
};

}  // namespace

Result<Graph> loadBert(const std::string& folder, BertHead head) {
  auto built = [&]() -> Result<Graph> {
    RLX_TRY(const Config c, readConfig(folder));
    RLX_TRY(const Safetensors weights, readSafetensors(folder));
    return BertBuilder(c, weights).build(head);
  }();
  if (!built) return std::move(built).error().note("loading " + folder);
  return built;
}

}  // namespace rlx
