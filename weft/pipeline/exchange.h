// What a stage sends and receives: values forward, their gradients back, each by a reshard plan between the two meshes.
//
// A crossing has one op per slot and direction; micro-batch g, counted over all steps,
// uses slot g mod slots. A receiver posts a slot as soon as the micro-batch that used it before is done with it, long
// before the data come; a sender posts when a value exists and goes on computing, and the pump moves what is under way.
// Received f32 values stay in the op's memory until done(): nothing is copied.
//
// The value that ends a stage is the sum of a product and of what each rank has: where its ranks share no sums, the
// plan has the product in it (reshard/build), and tiles leave while the stage still makes the next ones.
//
// Without overlap a stage does as systems do that stop for transfers: what it has made goes when its work item is over,
// together with the receives of the next item, and it goes on when all of its own is on its way (gap()).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/pipeline/places.h"
#include "weft/pipeline/pump.h"
#include "weft/schedule/schedule.h"
#include "weft/world/world.h"

namespace weft::pipeline {

struct ExchangeOptions {
  std::int64_t rows = 0, cols = 0;    // of a whole micro-batch
  std::vector<int> peak_activations;  // per stage: how many micro-batches a receiver holds at once
  Dtype dtype = Dtype::f32;           // on the wire
  std::int64_t product_k = 0;         // of the last product of a stage, (rows, product_k) . (cols, product_k)^T
  TransferOptions transfers;
};

class Exchange {
 public:
  Exchange(World& world, const Places& places, const ExchangeOptions& options, Pump* pump);  // collective
  ~Exchange();

  // Micro-batches up to this number are coming, one after the other: what of them there is room for is posted.
  void expect(std::int64_t end);

  bool takes(std::int64_t value) const;  // whether it comes from another stage
  // To every stage that takes it. The rows must stay until the gradient of this micro-batch has come.
  void send(std::int64_t value, std::int64_t g, const float* rows);
  // Whether the value leaves by send_product(), and not by send().
  bool streams(std::int64_t value) const;
  // Makes addend + h . weight^T and sends it meanwhile; nothing of it stays here. May wait for the receiver's room,
  // which is there but for a receiver that has fallen behind. The threads are those of the world.
  struct LastProduct {
    const float *h, *weight, *addend;  // (local rows, product_k), (cols, product_k), (local rows, cols)
  };
  void send_product(std::int64_t value, std::int64_t g, const LastProduct& product);
  // Waits; (local rows, cols), readable until done(g). `room`: where it is widened to, if it does not travel as f32.
  const float* receive(std::int64_t value, std::int64_t g, float* room);
  void done();  // the values of the oldest micro-batch are read no more
  void send_gradient(std::int64_t value, std::int64_t g, const float* rows);  // copied
  // Waits for the gradients that takers of the value have, and adds them up in `into`; false where nobody takes it.
  bool add_gradients(std::int64_t value, std::int64_t g, float* into, Into how);

  // Between two work items, without overlap: `next` may be null.
  void gap(const WorkItem* next, std::int64_t g);

  void drain();  // waits until nothing of this rank is under way

  Sent sent(std::int64_t value) const;           // by this rank, of a value that it sends, so far
  double waited_s() const { return waited_s_; }  // for values and gradients, and in gaps
  // What one micro-batch of a crossing takes as planned, if nothing else is on the links.
  double planned_s(const Crossing& crossing, bool backward) const;

 private:
  struct Lane;
  struct Queued {
    Lane* lane;
    std::int64_t g;
    const float* rows;
  };

  void add_lane(World& world, const Places& places, const Crossing& crossing, bool backward);
  Plan plan_of(const World& world, const Reshard& reshard, Lane* lane) const;
  int slots_of(const Lane& lane) const;
  Lane* find(std::int64_t value, bool backward, bool sends) const;
  void post(Lane& lane, std::int64_t g, const float* rows);
  void post_ahead(Lane& lane);
  void hand_over(Lane& lane, std::int64_t g, const float* rows);
  const float* await(Lane& lane, std::int64_t g, float* room);

  ExchangeOptions options_;
  int stage_;
  std::int64_t local_rows_ = 0, end_ = 0;
  Pump* pump_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Queued> queued_;   // without overlap: to go in the next gap
  std::vector<float> stand_in_;  // one element: what is computed with instead
  std::vector<float> room_;      // for gradients that are widened
  double waited_s_ = 0;
};

}  // namespace weft::pipeline
