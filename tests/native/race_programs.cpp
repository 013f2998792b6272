// Many threads run programs and share the pool, which is to be watched by the thread sanitizer.
//
//   race_programs FOLDER ROUNDS
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "corpus.h"
#include "thread_pool.h"

namespace xpr {
namespace {

constexpr int kThreads = 4;
constexpr uint64_t kPieces = 64;

struct Sums {
  uint64_t of[kPieces] = {};  // plain memory: what pieces write, the caller has to see
};

int add(void* context, uint64_t i) {
  static_cast<Sums*>(context)->of[i] += i;
  return 0;
}

int fail_at_ten(void*, uint64_t i) { return i == 10 ? 7 : 0; }

bool check_pool(int rounds) {
  ThreadPool pool(kThreads);
  Sums sums;
  for (int round = 0; round < rounds; ++round) {
    if (pool.run(&add, &sums, kPieces) != 0) return false;
    if (pool.run(&fail_at_ten, nullptr, kPieces) != 7) return false;
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  for (uint64_t i = 0; i < kPieces; ++i) {
    if (sums.of[i] != i * static_cast<uint64_t>(rounds)) return false;
  }
  return true;
}

int count_call(void* context, uint64_t i) {
  ++(*static_cast<std::vector<int>*>(context))[i];
  return 0;
}

// However many pieces there are for however many threads, each is done once.
bool check_ranges() {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (uint64_t count : {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 97, 1000, 100'003}) {
      std::vector<int> calls(count);
      if (pool.run(&count_call, &calls, count) != 0) return false;
      if (std::count(calls.begin(), calls.end(), 1) != static_cast<ptrdiff_t>(count)) return false;
    }
  }
  return true;
}

size_t threads_now() {
  std::error_code none;
  std::filesystem::directory_iterator tasks("/proc/self/task", none), end;
  return none ? 0 : static_cast<size_t>(std::distance(tasks, end));
}

// Threads take turns at the pool while another one replaces it, and no thread of theirs stays.
bool check_replaced(int rounds) {
  use_threads(1);
  size_t before = threads_now();
  std::atomic<bool> right{true}, done{false};
  auto work = [&] {
    while (!done) {
      PoolTurn turn(true);
      if (!turn.pool()) continue;
      Sums sums;
      if (turn.pool()->run(&add, &sums, kPieces) != 0) right = false;
      for (uint64_t i = 0; i < kPieces; ++i) {
        if (sums.of[i] != i) right = false;
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (int round = 0; round < rounds; ++round) {
    use_threads(1 + round % 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  use_threads(1);
  // The system lists threads for a moment after they have ended.
  for (int i = 0; i < 500 && threads_now() > before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return right && threads_now() <= before;
}

// Each thread calls each program, with several threads where the pool is free, and compares.
bool check_programs(const char* folder, int rounds) {
  std::vector<Sample> corpus = read_corpus(folder);
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::vector<Block>> wanted;
  for (const Sample& sample : corpus) {
    Bytes bytes{sample.bytes.data(), sample.bytes.size()};
    programs.push_back(std::make_unique<Program>(bytes, "main", sample.inputs, sample.outputs,
                                                 Reuse{sample.donated, {}, false}, sample.host));
    std::vector<Block> arguments = arguments_of(sample), results(sample.outputs.size());
    ZeroCalls calls(sample.host);
    programs.back()->run(arguments.data(), results.data(), false, &calls);
    wanted.push_back(std::move(results));
  }
  std::atomic<bool> right{true};
  auto work = [&] {
    for (int round = 0; round < rounds; ++round) {
      for (size_t p = 0; p < programs.size(); ++p) {
        const Sample& sample = corpus[p];
        std::vector<Block> arguments = arguments_of(sample), results(sample.outputs.size());
        ZeroCalls calls(sample.host);
        programs[p]->run(arguments.data(), results.data(), true, &calls);
        for (size_t k = 0; k < results.size(); ++k) {
          const Block& found = results[k];
          if (found.size && std::memcmp(found.data, wanted[p][k].data, found.size) != 0) {
            right = false;
          }
        }
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return right;
}

}  // namespace
}  // namespace xpr

int main(int count, char** words) {
  if (count < 3) {
    std::puts("race_programs FOLDER ROUNDS");
    return 2;
  }
  int rounds = static_cast<int>(std::strtol(words[2], nullptr, 10));
  bool pool = xpr::check_ranges() && xpr::check_pool(10 * rounds),
       replaced = xpr::check_replaced(rounds);
  xpr::use_threads(4);
  bool programs = xpr::check_programs(words[1], rounds);
  std::printf("pool %s, replaced %s, programs %s\n", pool ? "right" : "wrong",
              replaced ? "right" : "wrong", programs ? "right" : "wrong");
  return pool && replaced && programs ? 0 : 1;
}
