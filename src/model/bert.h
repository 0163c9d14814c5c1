// The BERT family as a function that builds a graph from a Hugging Face folder (config.json,
// model.safetensors): an encoder block is a loop in here, not an op.
#pragma once
#include <string>

#include "ir/graph.h"

namespace rlx {

// Inputs input_ids, attention_mask, token_type_ids: i64[batch, seq]. Output last_hidden_state:
// f32[batch, seq, hidden]; with `sentence`, sentence_embedding: f32[batch, hidden] instead, the
// mean over unmasked tokens, divided by its L2 norm (sentence-transformers' mean pooling and
// normalisation).
enum class BertHead : uint8_t { HiddenState, Sentence };
Result<Graph> loadBert(const std::string& folder, BertHead head);

}  // namespace rlx
