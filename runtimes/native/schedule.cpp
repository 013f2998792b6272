#include "schedule.h"

#include <algorithm>
#include <cstring>

#include "refusal.h"

namespace xpr {
namespace {

constexpr size_t kMostSteps = 1u << 20;

}  // namespace

Ref<BufferObject> Recorder::argument(size_t number, size_t size) {
  sizes_[number] = size;
  return Ref(new BufferObject(static_cast<uint32_t>(number), 0, size));
}

Ref<BufferObject> Recorder::allocate(size_t size) {
  sizes_.push_back(size);
  return Ref(new BufferObject(static_cast<uint32_t>(sizes_.size() - 1), 0, size));
}

Place Recorder::place(const Operand& operand) {
  const BufferObject& buffer = *operand.buffer;
  if (buffer.slot != BufferObject::kNoSlot) {
    return {buffer.slot, buffer.offset + operand.offset, operand.length};
  }
  return {Place::kAddress, reinterpret_cast<uintptr_t>(buffer.data) + operand.offset,
          operand.length};
}

void Recorder::dispatch(const Dispatch& dispatch, const uint32_t* given, const Operand* bindings) {
  require(steps.size() < kMostSteps, "it has too many steps");
  Step step;
  step.dispatch = dispatch;
  step.places = static_cast<uint32_t>(places.size());
  step.constants = static_cast<uint32_t>(constants.size());
  constants.insert(constants.end(), given, given + dispatch.constant_count);
  for (int i = 0; i < dispatch.binding_count; ++i) places.push_back(place(bindings[i]));
  steps.push_back(step);
}

void Recorder::fill(const Operand& target, uint64_t pattern, uint8_t pattern_length) {
  require(steps.size() < kMostSteps, "it has too many steps");
  Step step;
  step.what = Command::What::kFill;
  step.pattern = pattern;
  step.pattern_length = pattern_length;
  step.places = static_cast<uint32_t>(places.size());
  places.push_back(place(target));
  steps.push_back(step);
}

void Recorder::copy(const Operand& source, const Operand& target) {
  require(steps.size() < kMostSteps, "it has too many steps");
  Step step;
  step.what = Command::What::kCopy;
  step.places = static_cast<uint32_t>(places.size());
  places.push_back(place(source));
  places.push_back(place(target));
  steps.push_back(step);
}

uint32_t Recorder::load(const Operand&) { throw NeedsValues("it reads a value on the host"); }

size_t Recorder::places_of(const Step& step) {
  switch (step.what) {
    case Command::What::kDispatch:
      return step.dispatch.binding_count;
    case Command::What::kFill:
      return 1;
    default:
      return 2;
  }
}

namespace {

// A part of an allocation of the program that no step reaches across.
struct Region {
  uint32_t allocation = 0;
  uint64_t low = 0, high = 0;
  size_t first_step = SIZE_MAX, last_step = 0;
  bool is_result = false;
  uint32_t block = 0;   // of the planned schedule
  uint64_t offset = 0;  // in that block
};

// Gives the memory of donated arguments to arrays of the program, before memory is planned.
class Donor {
 public:
  Donor(Recorder& recorder, std::vector<Place>& results, const Reuse& reuse)
      : recorder_(recorder), results_(results), reuse_(reuse) {
    for (size_t s = 0; s < recorder.steps.size(); ++s) {
      steps_of_places_.insert(steps_of_places_.end(), Recorder::places_of(recorder.steps[s]), s);
    }
  }

  void run() {
    if (std::find(reuse_.donated.begin(), reuse_.donated.end(), true) == reuse_.donated.end()) {
      return;
    }
    if (!are_in_order()) return;
    for (size_t s = 0; s < recorder_.steps.size(); ++s) drop_copy(s);
    place_results();
    for (auto s = dropped_.rbegin(); s != dropped_.rend(); ++s) {
      recorder_.steps.erase(recorder_.steps.begin() + static_cast<ptrdiff_t>(*s));
    }
  }

 private:
  static constexpr size_t kNever = SIZE_MAX;

  // Whether the places of the steps lie one behind the other, as they are recorded.
  bool are_in_order() const {
    size_t at = 0;
    for (const Step& step : recorder_.steps) {
      if (step.places != at) return false;
      at += Recorder::places_of(step);
    }
    return at == recorder_.places.size();
  }

  bool is_donated(uint32_t block) const {
    return block < reuse_.donated.size() && reuse_.donated[block];
  }

  bool is_all_of_argument(const Place& place) const {
    return is_donated(place.block) && place.offset == 0 &&
           place.length == recorder_.sizes_[place.block];
  }

  bool is_result(uint32_t block) const {
    return std::any_of(results_.begin(), results_.end(),
                       [&](const Place& r) { return r.block == block; });
  }

  static bool overlap(const Place& a, const Place& b) {
    return a.block == b.block && a.offset < b.offset + b.length && b.offset < a.offset + a.length;
  }

  static bool contains(const Place& outer, const Place& inner) {
    return outer.block == inner.block && outer.offset <= inner.offset &&
           inner.offset + inner.length <= outer.offset + outer.length;
  }

  // The steps that touch a range, the last of them and the first behind `after`; kNever for none.
  struct Uses {
    size_t first = kNever, last = kNever;
    bool is_apart = true;  // nothing reaches across an end of the range
  };

  Uses uses_of(const Place& range, size_t after) const {
    Uses found;
    for (size_t i = 0; i < recorder_.places.size(); ++i) {
      const Place& place = recorder_.places[i];
      if (place.length == 0 || !overlap(range, place)) continue;
      found.is_apart &= contains(range, place);
      size_t s = steps_of_places_[i];
      if (after != kNever && s <= after) continue;
      if (found.first == kNever) found.first = s;
      found.last = s;
    }
    for (const Place& result : results_) {
      if (overlap(range, result)) found.is_apart &= contains(range, result);
    }
    return found;
  }

  void replace(const Place& range, uint32_t argument) {
    auto move = [&](Place& place) {
      if (place.length && overlap(range, place)) {
        place = {argument, place.offset - range.offset, place.length};
      }
    };
    for (Place& place : recorder_.places) move(place);
    for (Place& result : results_) move(result);
  }

  // A step that copies all of an argument to an array that is changed afterwards: the argument is
  // changed itself if no step reads it any more.
  void drop_copy(size_t s) {
    const Step& step = recorder_.steps[s];
    if (step.what != Command::What::kCopy) return;
    const Place source = recorder_.places[step.places];
    const Place target = recorder_.places[step.places + 1];
    if (!is_all_of_argument(source) || source.length != target.length || source.length == 0) return;
    if (target.block == Place::kAddress || target.block < reuse_.donated.size()) return;
    if (is_result(source.block)) return;
    Uses all = uses_of(target, kNever);
    if (!all.is_apart || all.first != s) return;
    Uses read = uses_of(source, s), changed = uses_of(target, s);
    if (read.last != kNever && !(changed.first != kNever && read.last < changed.first)) return;
    replace(target, source.block);
    recorder_.places[step.places].length = recorder_.places[step.places + 1].length = 0;
    dropped_.push_back(s);
  }

  // Results take the memory of arguments that were read before they are written, in the order in
  // which they are written.
  void place_results() {
    struct Candidate {
      size_t first;
      uint32_t result;
    };
    std::vector<Candidate> candidates;
    for (uint32_t k = 0; k < results_.size(); ++k) {
      const Place& place = results_[k];
      if (place.length == 0 || place.block == Place::kAddress ||
          place.block < reuse_.donated.size()) {
        continue;
      }
      Uses uses = uses_of(place, kNever);
      size_t same = 0;
      for (const Place& other : results_) same += overlap(place, other);
      if (uses.is_apart && uses.first != kNever && same == 1) candidates.push_back({uses.first, k});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.first < b.first; });
    for (const Candidate& candidate : candidates) {
      uint32_t argument = argument_for(candidate.result, candidate.first);
      if (argument != Reuse::kNone) {
        Place range = results_[candidate.result];
        replace(range, argument);
      }
    }
  }

  // The argument whose memory a result takes that is first written by a step: its own if it can.
  uint32_t argument_for(uint32_t result, size_t first) const {
    uint32_t found = Reuse::kNone;
    for (uint32_t a = 0; a < reuse_.donated.size(); ++a) {
      if (!reuse_.donated[a] || recorder_.sizes_[a] != results_[result].length || is_result(a)) {
        continue;
      }
      Uses uses = uses_of({a, 0, recorder_.sizes_[a]}, kNever);
      bool free = uses.last == kNever || uses.last < first ||
                  (reuse_.elementwise && uses.last == first);
      if (!free) continue;
      if (reuse_.results[a] == result) return a;
      if (found == Reuse::kNone) found = a;
    }
    return found;
  }

  Recorder& recorder_;
  std::vector<Place>& results_;
  const Reuse& reuse_;
  std::vector<size_t> steps_of_places_;
  std::vector<size_t> dropped_;
};

class Planner {
 public:
  Planner(Recorder& recorder, const std::vector<Place>& results, const std::vector<bool>& donated)
      : recorder_(recorder), results_(results), donated_(donated) {
    made_.argument_count = donated.size();
  }

  Schedule plan() {
    find_regions();
    place_results();
    place_transients();
    for (Place& place : recorder_.places) place = moved(place);
    made_.steps = std::move(recorder_.steps);
    made_.places = std::move(recorder_.places);
    made_.constants = std::move(recorder_.constants);
    plan_results();
    auto slab = static_cast<uint32_t>(made_.argument_count + made_.result_blocks.size());
    for (Place& place : made_.places) {
      if (place.block == kSlab) place.block = slab;
    }
    return std::move(made_);
  }

 private:
  static constexpr uint32_t kSlab = UINT32_MAX - 1;

  bool is_allocation(const Place& place) const {
    return place.block != Place::kAddress && place.block >= made_.argument_count;
  }

  // The parts of each allocation that are used together: ranges that overlap, or that do not begin
  // where memory is aligned, are one part.
  void find_regions() {
    auto add = [this](const Place& place, size_t step, bool is_result) {
      if (!is_allocation(place) || place.length == 0) return;
      uint64_t low = place.offset & ~uint64_t{kAlignment - 1};
      regions_.push_back({place.block, low, place.offset + place.length, step, step, is_result});
    };
    for (size_t s = 0; s < recorder_.steps.size(); ++s) {
      const Step& step = recorder_.steps[s];
      for (size_t k = 0; k < Recorder::places_of(step); ++k) {
        add(recorder_.places[step.places + k], s, false);
      }
    }
    for (const Place& result : results_) add(result, recorder_.steps.size(), true);
    std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) {
      return a.allocation != b.allocation ? a.allocation < b.allocation : a.low < b.low;
    });
    std::vector<Region> merged;
    for (const Region& region : regions_) {
      if (!merged.empty() && merged.back().allocation == region.allocation &&
          region.low < aligned(merged.back().high)) {
        Region& last = merged.back();
        last.high = std::max(last.high, region.high);
        last.first_step = std::min(last.first_step, region.first_step);
        last.last_step = std::max(last.last_step, region.last_step);
        last.is_result |= region.is_result;
      } else {
        merged.push_back(region);
      }
    }
    regions_ = std::move(merged);
  }

  void place_results() {
    for (Region& region : regions_) {
      if (!region.is_result) continue;
      region.block = static_cast<uint32_t>(made_.argument_count + made_.result_blocks.size());
      made_.result_blocks.push_back(region.high - region.low);
    }
  }

  // The first gap in the slab that is free while the region is in use.
  void place_transients() {
    std::vector<Region*> placed;
    for (Region& region : regions_) {
      if (region.is_result) continue;
      region.block = kSlab;
      uint64_t size = aligned(region.high - region.low), at = 0;
      for (const Region* other : placed) {  // in the order of their offsets
        if (other->last_step < region.first_step || region.last_step < other->first_step) continue;
        if (at + size <= other->offset) break;
        at = std::max<uint64_t>(at, other->offset + aligned(other->high - other->low));
      }
      region.offset = at;
      made_.slab_size = std::max<size_t>(made_.slab_size, at + size);
      placed.insert(
          std::upper_bound(placed.begin(), placed.end(), &region,
                           [](const Region* a, const Region* b) { return a->offset < b->offset; }),
          &region);
    }
  }

  const Region& region_of(const Place& place) const {
    auto after = std::upper_bound(
        regions_.begin(), regions_.end(), place, [](const Place& p, const Region& r) {
          return p.block != r.allocation ? p.block < r.allocation : p.offset < r.low;
        });
    return *(after - 1);
  }

  Place moved(const Place& place) const {
    if (!is_allocation(place)) return place;
    if (place.length == 0) return {Place::kAddress, kAlignment, 0};  // an address never used
    const Region& region = region_of(place);
    return {region.block, region.offset + (place.offset - region.low), place.length};
  }

  // A result that has a block for itself; another is copied to one behind all other steps.
  void plan_results() {
    std::vector<bool> is_taken(made_.result_blocks.size() + made_.argument_count);
    for (const Place& result : results_) {
      Place from = moved(result);
      ResultPlan planned;
      planned.length = result.length;
      bool whole = false;
      if (result.length == 0) {
        from = {Place::kAddress, kAlignment, 0};
      } else if (from.block != Place::kAddress && !is_taken[from.block]) {
        if (from.block < made_.argument_count) {
          whole = donated_[from.block] && from.offset == 0 &&
                  from.length == recorder_.sizes_[from.block];
        } else {
          size_t size = made_.result_blocks[from.block - made_.argument_count];
          whole = size - from.length <= kWaste || from.length > size / 8;
        }
      }
      if (whole) {
        is_taken[from.block] = true;
        bool argument = from.block < made_.argument_count;
        planned.from = argument ? ResultPlan::From::kArgument : ResultPlan::From::kBlock;
        planned.number =
            argument ? from.block : from.block - static_cast<uint32_t>(made_.argument_count);
        planned.offset = from.offset;
      } else {
        planned.number = static_cast<uint32_t>(made_.result_blocks.size());
        made_.result_blocks.push_back(result.length);
        is_taken.push_back(true);
        Step step;
        step.what = Command::What::kCopy;
        step.places = static_cast<uint32_t>(made_.places.size());
        made_.places.push_back(from);
        made_.places.push_back(
            {static_cast<uint32_t>(made_.argument_count) + planned.number, 0, result.length});
        if (result.length) made_.steps.push_back(step);
      }
      made_.results.push_back(planned);
    }
    for (size_t b = 0; b < made_.result_blocks.size(); ++b) {
      if (!is_taken[made_.argument_count + b]) made_.unclaimed.push_back(b);
    }
  }

  // Bytes that an array may keep alive beside its own.
  static constexpr size_t kWaste = 4096;

  Recorder& recorder_;
  const std::vector<Place>& results_;
  const std::vector<bool>& donated_;
  Schedule made_;
  std::vector<Region> regions_;
};

}  // namespace

Schedule Schedule::plan(Recorder&& recorder, const std::vector<Place>& results,
                        const Reuse& reuse) {
  std::vector<Place> moved = results;
  Donor(recorder, moved, reuse).run();
  return Planner(recorder, moved, reuse.donated).plan();
}

void Schedule::run(uint8_t** blocks, ThreadPool* pool) const {
  void* addresses[kMostBindings];
  size_t lengths[kMostBindings];
  for (const Step& step : steps) {
    size_t count = Recorder::places_of(step);
    for (size_t i = 0; i < count; ++i) {
      const Place& place = places[step.places + i];
      addresses[i] = place.block == Place::kAddress
                         ? reinterpret_cast<void*>(static_cast<uintptr_t>(place.offset))
                         : blocks[place.block] + place.offset;
      lengths[i] = place.length;
    }
    switch (step.what) {
      case Command::What::kDispatch:
        if (run_kernel(step.dispatch, constants.data() + step.constants, addresses, lengths,
                       pool) != 0) {
          throw ProgramError("a kernel of the program failed");
        }
        break;
      case Command::What::kFill:
        fill_memory(static_cast<uint8_t*>(addresses[0]), lengths[0], step.pattern,
                    step.pattern_length, pool);
        break;
      case Command::What::kCopy:
        copy_memory(static_cast<uint8_t*>(addresses[1]), static_cast<uint8_t*>(addresses[0]),
                    lengths[1], pool);
        break;
    }
  }
}

}  // namespace xpr
