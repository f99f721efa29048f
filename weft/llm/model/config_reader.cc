#include "weft/llm/model/config_reader.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

// Keys that change no logits, sorted.
constexpr std::string_view kIdleKeys[] = {
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_std",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "layerdrop",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "tokenizer_model_max_length",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};
static_assert(std::is_sorted(std::begin(kIdleKeys), std::end(kIdleKeys)));

bool is_idle(std::string_view key) {
  return key.starts_with('_') || std::binary_search(std::begin(kIdleKeys), std::end(kIdleKeys), key);
}

}  // namespace

const Json* ConfigReader::find(std::string_view key) {
  read_.insert(std::string(key));
  const Json* field = find_field(json_, key, where_);
  return field == nullptr || field->is_null() ? nullptr : field;
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  ignore(key);
  return get_int(json_, key, where_, min, max);
}

std::int64_t ConfigReader::integer_or(std::string_view key, std::int64_t otherwise, std::int64_t min,
                                      std::int64_t max) {
  return has(key) ? integer(key, min, max) : otherwise;
}

double ConfigReader::number(std::string_view key, double min, double max) {
  ignore(key);
  return get_double(json_, key, where_, min, max);
}

double ConfigReader::number_or(std::string_view key, double otherwise, double min, double max) {
  return has(key) ? number(key, min, max) : otherwise;
}

bool ConfigReader::flag_or(std::string_view key, bool otherwise) {
  return has(key) ? get_bool(json_, key, where_) : otherwise;
}

std::string ConfigReader::text(std::string_view key) {
  ignore(key);
  return get_string(json_, key, where_);
}

std::string ConfigReader::text_or(std::string_view key, std::string_view otherwise) {
  return has(key) ? text(key) : std::string(otherwise);
}

std::vector<double> ConfigReader::numbers(std::string_view key, double min, double max) {
  ignore(key);
  std::vector<double> out;
  for (const Json& value : get_array(json_, key, where_)) {
    if (!value.is_number() || !(value.get<double>() >= min && value.get<double>() <= max))
      bad_input("{}: \"{}\" holds {}; its values lie in {} to {}", where_, key, value.dump(), min, max);
    out.push_back(value.get<double>());
  }
  return out;
}

std::vector<std::int64_t> ConfigReader::integers(std::string_view key, std::int64_t min, std::int64_t max) {
  ignore(key);
  return get_ints(json_, key, where_, min, max);
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  ignore(key);
  std::vector<std::string> out;
  for (const Json& value : get_array(json_, key, where_)) {
    if (!value.is_string()) bad_input("{}: \"{}\" holds {}, which is no text", where_, key, value.dump());
    out.push_back(value.get<std::string>());
  }
  return out;
}

Activation ConfigReader::activation(std::string_view key, std::string_view otherwise) {
  const std::string name = text_or(key, otherwise);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  if (name == "gelu" || name == "gelu_python") return Activation::gelu_erf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu;
  bad_input("{}: \"{}\" is {}, which Weft does not compute; it has silu, relu, gelu and gelu_new", where_, key,
            weft::quoted(name));
}

void ConfigReader::must_be(std::string_view key, bool value, std::string_view why) {
  if (flag_or(key, value) != value) bad_input("{}: \"{}\" is {}: {}; use a model without it", where_, key, !value, why);
}

void ConfigReader::must_be_absent(std::string_view key, std::string_view why) {
  const Json* field = find(key);
  if (field == nullptr || (field->is_structured() && field->empty())) return;
  bad_input("{}: \"{}\" is there: {}", where_, key, why);
}

void ConfigReader::refuse_rest() const {
  for (const auto& [key, value] : json_.items())
    if (!value.is_null() && !read_.contains(key) && !is_idle(key))
      bad_input(
          "{}: \"{}\" is a key that Weft does not know, so it could change what the model computes; delete it if it "
          "changes nothing",
          where_, key);
}

}  // namespace weft
