#include "stack_call.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "kernel.h"
#include "thread_pool.h"

namespace xpr {
namespace {

using Addresses = std::array<void*, kMostStackArguments>;
using Caller = void (*)(void* function, const Addresses& arguments);

template <size_t>
using Address = void*;

// Calls a function of as many arguments as there are indices.
template <size_t... I>
void call(void* function, const Addresses& arguments, std::index_sequence<I...> /*places*/) {
  reinterpret_cast<void (*)(Address<I>...)>(function)(arguments[I]...);
}

template <size_t Count>
void call_with(void* function, const Addresses& arguments) {
  call(function, arguments, std::make_index_sequence<Count>());
}

template <size_t... Counts>
constexpr std::array<Caller, sizeof...(Counts)> callers(std::index_sequence<Counts...> /*counts*/) {
  return {&call_with<Counts>...};
}

constexpr auto kCallers = callers(std::make_index_sequence<kMostStackArguments + 1>());

struct Stack {
  void* function;
  Caller caller;
  const std::vector<StackArgument>& arguments;
  uint64_t count;
  uint64_t chunk;

  void run_chunk(uint64_t which) const {
    const NoFlushToZero usual;
    const uint64_t begin = which * chunk;
    const uint64_t end = std::min(count, begin + chunk);
    Addresses addresses{};
    for (size_t i = 0; i < arguments.size(); ++i) {
      const StackArgument& argument = arguments[i];
      addresses[i] = argument.first + static_cast<ptrdiff_t>(begin) * argument.per_matrix +
                     static_cast<ptrdiff_t>(which) * argument.per_chunk;
    }
    for (uint64_t matrix = begin; matrix < end; ++matrix) {
      caller(function, addresses);
      for (size_t i = 0; i < arguments.size(); ++i) {
        addresses[i] = static_cast<char*>(addresses[i]) + arguments[i].per_matrix;
      }
    }
  }
};

int run_piece(void* context, uint64_t which) {
  static_cast<const Stack*>(context)->run_chunk(which);
  return 0;
}

}  // namespace

void call_over_stack(void* function, const std::vector<StackArgument>& arguments, uint64_t count,
                     uint64_t chunk, bool parallel) {
  if (arguments.size() > kMostStackArguments) throw std::invalid_argument("too many arguments");
  if (chunk == 0) throw std::invalid_argument("a chunk holds at least one matrix");
  Stack stack{function, kCallers[arguments.size()], arguments, count, chunk};
  const uint64_t chunks = count / chunk + (count % chunk != 0 ? 1 : 0);
  const PoolTurn turn(parallel && chunks > 1);
  if (turn.pool() != nullptr) {
    turn.pool()->run(&run_piece, &stack, chunks);
    return;
  }
  for (uint64_t which = 0; which < chunks; ++which) stack.run_chunk(which);
}

}  // namespace xpr
