// What reduce_scatter and all_reduce have in common: chunks, one per owner, that come together in inboxes.
#pragma once

#include "weft/collective/draft.h"

namespace weft {

// An inbox and its counters: slots whose tiles are there, tiles that have been used, and credits for writing it again.
struct Inbox {
  int buffer, full, used, credit;
};

// Slots of inboxes hold `slot_rows` rows: 0 for those of one chunk, as chunks end where owners change.
Draft reduce_draft(const char* name, const Producer& producer, const Space& space, Route route,
                   std::int64_t slot_rows = 0);

// Routes whose chunks are of equal rows and whose sums go as f32: throws bad_input where these cannot be.
void check_equal_chunks(const Producer& producer, const Space& space, Route route);
// The most rows of a tile that ends where such a chunk does.
std::int64_t rows_of_tiles(std::int64_t chunk, std::int64_t most);

// The owner's sum of a chunk, in `piece` of its rank.
Owed owed_sum(const Draft& draft, PieceRule piece, const Expr& chunk);
// All sums on every rank.
Owed owed_sums(const Draft& draft, int y);

// The rows lo to hi and columns x to z of a chunk, in slot `at`.
BoxRule slot_part(const Expr& at);

// A ring in S slices, slices outermost, so that the first slice's sums are ready early.
Inbox ring_inbox(Draft& draft, const Space& space, int slices);
Rule ring_step(const Draft& draft, const Inbox& inbox, SlicedBy sliced);
void credit_previous(Draft& draft, const Inbox& inbox);

// One slot per source. The s-th of the sources of a chunk writes slot s, the owner adds them all.
Inbox direct_inbox(Draft& draft, const Space& space);
void credit_everybody(Draft& draft, const Inbox& inbox);

}  // namespace weft
