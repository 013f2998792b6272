// The key of a call: what decides which compiled program answers it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python_objects.h"
#include "small_vector.h"

namespace xpr {

// What the words of a key are, and so how two of them are compared.
enum class Word : std::uint8_t {
  kNumber,    // a number: a kind of node and its size
  kIdentity,  // an object that is compared by identity
  kText,      // a str
  kValue,     // an object that is compared by ==
};

// Which arguments of a function are static.
struct StaticArguments {
  std::vector<Py_ssize_t> positions;  // negative ones count from the end
  PyRef names;                        // a frozenset, or none

  bool any() const { return !positions.empty() || names; }
};

enum class Walked {
  kUsual,    // the key is complete
  kUnusual,  // something that only the Python path knows
  kFailed,   // an exception is set
};

// Of equal shardings the one that stands for all in keys, so that these compare addresses alone.
class KnownShardings {
 public:
  // The sharding that stands for this one, which is borrowed; null for one that is not known.
  PyObject* find(PyObject* sharding) const {
    auto at = found_.find(sharding);
    return at == found_.end() ? nullptr : at->second.first.get();
  }
  // Makes one known: runs Python code, which compares it. False with an exception set.
  bool learn(const PyRef& sharding);
  void forget();

 private:
  // To the addresses of shardings: the one that stands for each, and itself, so that the address
  // stays its own.
  std::unordered_map<PyObject*, std::pair<PyRef, PyRef>> found_;
  PyRef equal_;  // a dictionary from shardings to those that stand for them
};

// The one that stands for this sharding, borrowed; null for one that `learn_sharding` was not told
// of, which runs Python code, and returns false with an exception set where it fails.
PyObject* known_sharding(PyObject* sharding);
bool learn_sharding(const PyRef& sharding);

// Forgets all shardings, so that nothing holds those that are no longer used.
void forget_shardings();

// One call, taken apart. The objects are borrowed from the call's arguments, so they stay valid
// until Python code runs or the lock is given up; `hold` makes them stay longer.
class CallKey {
 public:
  // What `trace_key` and the arguments say. `kwargs` may be null.
  Walked add_call(PyObject* trace_key, PyObject* args, PyObject* kwargs,
                  const StaticArguments& statics);

  void hold(std::vector<PyRef>& owners) const;

  std::uint64_t hash() const { return hash_; }
  PyObject* device() const { return device_; }
  bool is_committed() const { return committed_; }
  bool has_values() const { return has_values_; }
  bool has_foreign() const { return has_foreign_; }
  bool is_sharded() const { return is_sharded_; }
  std::size_t leaf_count() const { return leaves_.size(); }
  PyObject* leaf(std::size_t index) const { return leaves_[index]; }
  std::size_t size() const { return words_.size(); }
  std::uint64_t word(std::size_t index) const { return words_[index]; }
  Word kind(std::size_t index) const { return kinds_[index]; }

 private:
  void add(Word kind, std::uint64_t word, std::uint64_t hash) {
    words_.push_back(word);
    kinds_.push_back(kind);
    hash_ = (hash_ ^ hash) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  void add_number(std::uint64_t number) { add(Word::kNumber, number, number); }
  void add_identity(PyObject* object) {
    auto word = reinterpret_cast<std::uintptr_t>(object);
    add(Word::kIdentity, word, word);
  }
  Walked add_all(PyObject* trace_key, PyObject* args, PyObject* kwargs,
                 const StaticArguments& statics);
  bool add_statics(PyObject* args, PyObject* kwargs, const StaticArguments& statics);
  bool add_text(PyObject* text);
  bool add_value(PyObject* value);
  Walked add_tree(PyObject* tree, int depth);
  Walked add_array(PyObject* array);
  Walked add_sharded_array(PyObject* array);
  Walked add_foreign_array(PyObject* array);

  SmallVector<std::uint64_t, 160> words_;
  SmallVector<Word, 160> kinds_;
  SmallVector<PyObject*, 128> leaves_;
  std::uint64_t hash_ = 0;
  PyObject* device_ = nullptr;
  bool committed_ = false;
  bool has_values_ = false;
  bool has_foreign_ = false;
  bool is_sharded_ = false;
  std::vector<PyRef> unknown_;  // shardings that are not known yet
};

// A key that owns its objects, to be kept in a cache.
class StoredKey {
 public:
  explicit StoredKey(const CallKey& key);

  std::uint64_t hash() const { return hash_; }
  // Whether the keys are equal but for `Word::kValue`s: runs no Python code.
  bool matches_quickly(const CallKey& key) const;
  // Whether those are equal too: 1 or 0, or -1 with an exception set.
  int matches_values(const CallKey& key) const;
  int traverse(visitproc visit, void* arg) const;

 private:
  std::vector<std::uint64_t> words_;
  std::vector<Word> kinds_;
  std::vector<PyRef> objects_;
  std::uint64_t hash_;
};

// For each leaf in the order of a pytree, dictionaries by sorted key, its place in the order in
// which `CallKey` found it; empty where the two orders agree. For calls with a usual key only.
std::vector<std::uint32_t> leaf_order(PyObject* args, PyObject* kwargs,
                                      const StaticArguments& statics);

}  // namespace xpr
