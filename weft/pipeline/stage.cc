#include "weft/pipeline/stage.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/nn/cross_entropy.h"
#include "weft/nn/embedding.h"

namespace weft::pipeline {
namespace {

// out = a + b
void add(ThreadPool& pool, std::int64_t count, const float* a, const float* b, float* out) {
  share_out(pool, count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = a[i] + b[i];
  });
}

}  // namespace

Stage::Stage(const StageOptions& options, const ParameterList* parameters, Exchange* exchange, Pump* pump,
             RankSum* rows_sum, ThreadPool* pool)
    : options_(options),
      parameters_(parameters),
      exchange_(exchange),
      pump_(pump),
      rows_sum_(rows_sum),
      pool_(pool),
      shape_(block_of(options.model, options.sequences, options.place.tensor)),
      rotary_(rotary_of(options.model)),
      products_(pool) {
  for (std::int64_t layer = options.place.first_layer; layer < options.place.end_layer; ++layer)
    blocks_.push_back(std::make_unique<TransformerBlock>(shape_, &rotary_, pool));
  const auto count = num(values_count());
  partial_.resize(count);
  gradient_.resize(blocks_.size() + 1, std::vector<float>(count));
  middle_.resize(blocks_.size(), std::vector<float>(count));
  if (is_last()) normed_gradient_.resize(count);
}

Stage::Slot& Stage::open_slot(std::int64_t g) {
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->g < 0; });
  if (free == slots_.end()) {
    auto slot = std::make_unique<Slot>();
    slot->values.resize(blocks_.size() + 1);
    slot->own.resize(blocks_.size() + 1);
    slot->layers.resize(blocks_.size());
    slots_.push_back(std::move(slot));
    peak_ = int_size(slots_);  // a slot is made only where all others are in use
    slots_.back()->g = g;
    return *slots_.back();
  }
  (*free)->g = g;
  return **free;
}

Stage::Slot& Stage::slot_of(std::int64_t g) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const auto& slot) { return slot->g == g; });
  if (found == slots_.end()) fail(Code::internal, "micro-batch {} goes backward and has not gone forward", g);
  return **found;
}

float* Stage::own_value(Slot& slot, std::int64_t value) {
  const std::size_t index = at(value - options_.place.first_layer);
  slot.own[index].resize(num(values_count()));
  slot.values[index] = slot.own[index].data();
  return slot.own[index].data();
}

const float* Stage::summed(const float* partial) {
  if (rows_sum_ == nullptr) return partial;
  const auto lock = pump_->lock();
  return rows_sum_->sum_of(partial);
}

// Time that passed without waiting for other stages.
double Stage::busy_s() const { return seconds_since(0) - exchange_->waited_s(); }

// Until a block's share of `seconds` has passed since it began.
void Stage::dwell(double begin_s, double seconds) const {
  const double rest = seconds / static_cast<double>(blocks_.size()) - (busy_s() - begin_s);
  if (rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest));
}

// What enters the block: its value and, where the model has one, the skip, which may come from another stage.
const float* Stage::enter(Slot& slot, std::int64_t layer) {
  const std::int64_t first = options_.place.first_layer, skip = options_.model.skip_into(layer);
  const float* x = slot.values[at(layer - first)];
  if (skip < 0) return x;
  Layer& here = slot.layers[at(layer - first)];
  here.sum.resize(num(values_count()));
  const float* long_way = nullptr;
  if (options_.place.makes(skip) || skip == first) {
    long_way = slot.values[at(skip - first)];
  } else {
    here.received.resize(num(values_count()));
    long_way = exchange_->receive(skip, slot.g, here.received.data());
  }
  add(*pool_, values_count(), x, long_way, here.sum.data());
  return here.sum.data();
}

void Stage::block_forward(Slot& slot, std::int64_t layer, const float* weights) {
  const std::size_t index = at(layer - options_.place.first_layer);
  TransformerBlock& block = *blocks_[index];
  Layer& here = slot.layers[index];
  const float* mine = weights + parameters_->block(layer);
  const double begin_s = busy_s();
  block.keep_in(&here.block);
  const float* x = enter(slot, layer);
  block.attend(mine, x, partial_.data());
  here.x1.resize(num(values_count()));
  add(*pool_, values_count(), x, summed(partial_.data()), here.x1.data());
  if (exchange_->streams(layer + 1)) {
    const float* h = block.feed_hidden(mine, here.x1.data());
    dwell(begin_s, options_.pace.forward_s);
    return exchange_->send_product(layer + 1, slot.g, {h, block.down_weight(mine), here.x1.data()});
  }
  block.feed(mine, here.x1.data(), partial_.data());
  float* out = own_value(slot, layer + 1);
  add(*pool_, values_count(), here.x1.data(), summed(partial_.data()), out);
  dwell(begin_s, options_.pace.forward_s);
  exchange_->send(layer + 1, slot.g, out);
}

Norm Stage::final_norm(const float* weights) const {
  return {NormKind::rms, options_.model.hidden, options_.model.eps, weights + parameters_->final_norm(), nullptr};
}

double Stage::head_forward(Slot& slot, const float* weights) {
  const std::int64_t hidden = options_.model.hidden, vocab = options_.model.vocab;
  slot.normed.resize(num(values_count()));
  slot.logits.resize(num(rows() * vocab));
  norm_forward(*pool_, rows(), final_norm(weights), {slot.values.back(), hidden}, {slot.normed.data(), hidden},
               &slot.norm_rows);
  linear_forward(products_, rows(), {hidden, vocab, weights + parameters_->head(), nullptr},
                 {slot.normed.data(), hidden}, {slot.logits.data(), vocab});
  return cross_entropy(*pool_, vocab, slot.tokens.targets, options_.scale, slot.logits.data());
}

double Stage::forward(std::int64_t g, const float* weights, Tokens tokens) {
  Slot& slot = open_slot(g);
  slot.tokens = std::move(tokens);
  const std::int64_t first = options_.place.first_layer;
  if (is_first()) {
    embed_forward(*pool_, options_.model.hidden, weights + parameters_->embedding(), slot.tokens.inputs,
                  own_value(slot, 0));
    exchange_->send(0, g, slot.values[0]);
  } else {
    slot.values[0] = exchange_->receive(first, g, own_value(slot, first));
  }
  for (std::int64_t layer = first; layer < options_.place.end_layer; ++layer) block_forward(slot, layer, weights);
  return is_last() ? head_forward(slot, weights) : 0;
}

void Stage::head_backward(Slot& slot, const float* weights, float* gradients, BackwardPart part) {
  const std::int64_t hidden = options_.model.hidden, vocab = options_.model.vocab;
  const RowsIn dlogits{slot.logits.data(), vocab};
  if (part != BackwardPart::weights) {
    products_.times({rows(), hidden, vocab}, dlogits, {weights + parameters_->head(), hidden},
                    {normed_gradient_.data(), hidden});
    norm_backward(*pool_, rows(), final_norm(weights), {slot.values.back(), hidden}, slot.norm_rows,
                  {normed_gradient_.data(), hidden}, {gradient_.back().data(), hidden}, Into::store,
                  {gradients + parameters_->final_norm(), nullptr});
  }
  if (part != BackwardPart::input)
    linear_backward_weights(products_, rows(), {hidden, vocab, weights + parameters_->head(), nullptr},
                            {slot.normed.data(), hidden}, dlogits, {gradients + parameters_->head(), nullptr});
}

// To the gradient of what enters a block: that of the skip which begins here, and what other stages have of it.
void Stage::add_others(Slot& slot, std::int64_t layer) {
  const std::int64_t first = options_.place.first_layer, taker = options_.model.layers - 1 - layer;
  float* gradient = gradient_[at(layer - first)].data();
  if (taker > layer && options_.place.has(taker) && options_.model.skip_into(taker) == layer)
    add(*pool_, values_count(), gradient, gradient_[at(taker - first)].data(), gradient);
  if (options_.place.makes(layer)) exchange_->add_gradients(layer, slot.g, gradient, Into::add);
}

void Stage::block_backward(Slot& slot, std::int64_t layer, const float* weights, float* gradients, BackwardPart part) {
  const std::size_t index = at(layer - options_.place.first_layer);
  TransformerBlock& block = *blocks_[index];
  const float *mine = weights + parameters_->block(layer), *dout = gradient_[index + 1].data();
  float *to = gradients + parameters_->block(layer), *middle = middle_[index].data(), *dx = gradient_[index].data();
  block.keep_in(&slot.layers[index].block);
  double begin_s = busy_s();
  if (part != BackwardPart::weights) {
    block.feed_backward(mine, dout, partial_.data(), to, BackwardPart::input);
    add(*pool_, values_count(), summed(partial_.data()), dout, middle);
    block.attend_backward(mine, middle, partial_.data(), to, BackwardPart::input);
    add(*pool_, values_count(), summed(partial_.data()), middle, dx);
    dwell(begin_s, options_.pace.backward_s / 2);
    if (part == BackwardPart::input) send_gradients(slot, layer);
  }
  if (part == BackwardPart::input) return;
  begin_s = busy_s();
  block.feed_backward(mine, dout, partial_.data(), to, BackwardPart::weights);
  block.attend_backward(mine, middle, partial_.data(), to, BackwardPart::weights);
  dwell(begin_s, options_.pace.backward_s / 2);
  if (part == BackwardPart::whole) send_gradients(slot, layer);
}

// What enters the block has its gradient: that of a skip from another stage leaves, and what others have is added.
void Stage::send_gradients(Slot& slot, std::int64_t layer) {
  const std::int64_t first = options_.place.first_layer, skip = options_.model.skip_into(layer);
  const float* dx = gradient_[at(layer - first)].data();
  if (skip >= 0 && skip != first && exchange_->takes(skip)) exchange_->send_gradient(skip, slot.g, dx);
  add_others(slot, layer);
  if (layer == first && exchange_->takes(layer)) exchange_->send_gradient(layer, slot.g, dx);
}

void Stage::backward(std::int64_t g, const float* weights, float* gradients, BackwardPart part,
                     const std::function<void(std::int64_t)>& layer_done) {
  Slot& slot = slot_of(g);
  const std::int64_t first = options_.place.first_layer, end = options_.place.end_layer;
  if (is_last()) {
    head_backward(slot, weights, gradients, part);
    if (part != BackwardPart::input) layer_done(end);
  } else if (part != BackwardPart::weights) {
    exchange_->add_gradients(end, g, gradient_.back().data(), Into::store);
  }
  for (std::int64_t layer = end - 1; layer >= first; --layer) {
    block_backward(slot, layer, weights, gradients, part);
    if (part != BackwardPart::input) layer_done(layer);
  }
  if (is_first() && part != BackwardPart::weights)
    embed_backward(*pool_, options_.model.hidden, slot.tokens.inputs, gradient_.front().data(),
                   gradients + parameters_->embedding());
  if (part == BackwardPart::input) return;
  layer_done(-1);
  exchange_->done();
  slot.g = -1;
}

}  // namespace weft::pipeline
