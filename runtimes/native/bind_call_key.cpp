#include <algorithm>
#include <cstring>
#include <utility>

#include "arrays.h"
#include "call_key.h"
#include "numpy_arrays.h"

namespace xpr {
namespace {

constexpr int kDeepest = 200;

enum Node : std::uint64_t {
  kTuple,
  kList,
  kDict,
  kNone,
  kArray,
  kShardedArray,
  kForeignArray,
  kBool,
  kInt,
  kFloat,
  kComplex,
  kStatic,
  kKeywords,
};

std::uint64_t node(Node kind, Py_ssize_t size = 0) {
  return static_cast<std::uint64_t>(size) << 8 | kind;
}

bool is_static(const StaticArguments& statics, Py_ssize_t index, Py_ssize_t count) {
  return std::any_of(statics.positions.begin(), statics.positions.end(),
                     [&](Py_ssize_t n) { return n == index || (n < 0 && n + count == index); });
}

int is_static_name(const StaticArguments& statics, PyObject* name) {
  return statics.names ? PySet_Contains(statics.names.get(), name) : 0;
}

// More than this are forgotten, so that shardings that never come again do not pile up.
constexpr std::size_t kMostShardings = 1 << 14;

// Held for as long as the process lives.
KnownShardings& known_shardings() {
  static auto* known = new KnownShardings();
  return *known;
}

}  // namespace

bool KnownShardings::learn(const PyRef& sharding) {
  if (found_.size() >= kMostShardings) forget();
  if (!equal_) equal_ = PyRef::steal(PyDict_New());
  if (!equal_) return false;
  PyRef equal = equal_;
  PyRef same = PyRef::borrow(PyDict_GetItemWithError(equal.get(), sharding.get()));
  if (!same) {
    if (PyErr_Occurred() || PyDict_SetItem(equal.get(), sharding.get(), sharding.get()) < 0) {
      return false;
    }
    same = sharding;
  }
  found_.insert_or_assign(sharding.get(), std::pair(same, sharding));
  return true;
}

void KnownShardings::forget() {
  // What is dropped may run Python code, which must find this as it will be.
  auto dropped = std::move(found_);
  found_.clear();
  PyRef old = std::move(equal_);
}

PyObject* known_sharding(PyObject* sharding) { return known_shardings().find(sharding); }

bool learn_sharding(const PyRef& sharding) { return known_shardings().learn(sharding); }

void forget_shardings() { known_shardings().forget(); }

bool CallKey::add_text(PyObject* text) {
  Py_hash_t hash = PyObject_Hash(text);
  add(Word::kText, reinterpret_cast<std::uintptr_t>(text), static_cast<std::uint64_t>(hash));
  return hash != -1;
}

bool CallKey::add_value(PyObject* value) {
  Py_hash_t hash = PyObject_Hash(value);
  if (hash == -1) return false;
  add_number(node(kStatic));
  add_identity(reinterpret_cast<PyObject*>(Py_TYPE(value)));
  add(Word::kValue, reinterpret_cast<std::uintptr_t>(value), static_cast<std::uint64_t>(hash));
  has_values_ = true;
  return true;
}

Walked CallKey::add_array(PyObject* array) {
  PyObject* buffer = host_buffer_of(array);
  PyObject* aval = aval_of(array);
  if (buffer == nullptr || aval == nullptr) return Walked::kUnusual;
  PyObject* device = device_of(buffer);
  if (device != device_) {
    if (device_ != nullptr) return Walked::kUnusual;
    device_ = device;
  }
  committed_ |= xpr::is_committed(array);
  add_identity(aval);
  leaves_.push_back(array);
  return Walked::kUsual;
}

Walked CallKey::add_sharded_array(PyObject* array) {
  PyObject* aval = aval_of(array);
  PyObject* sharding = slot(array, classes.sharding);
  if (aval == nullptr || is_none(sharding) || !xpr::is_committed(array)) return Walked::kUnusual;
  is_sharded_ = true;
  PyObject* same = known_shardings().find(sharding);
  if (same == nullptr) {
    unknown_.push_back(PyRef::borrow(sharding));
    same = sharding;
  }
  add_number(node(kShardedArray));
  add_identity(aval);
  add_identity(same);
  leaves_.push_back(array);
  return Walked::kUsual;
}

Walked CallKey::add_foreign_array(PyObject* array) {
  NumpyView view(array);
  add_number(node(kForeignArray, view.ndim()));
  add_identity(view.dtype());
  for (int axis = 0; axis < view.ndim(); ++axis) {
    add_number(static_cast<std::uint64_t>(view.extent(axis)));
  }
  leaves_.push_back(array);
  has_foreign_ = true;
  return Walked::kUsual;
}

Walked CallKey::add_tree(PyObject* tree, int depth) {
  if (is_array(tree)) return add_array(tree);
  if (is_sharded_array(tree)) return add_sharded_array(tree);
  if (depth > kDeepest) return Walked::kUnusual;
  PyTypeObject* type = Py_TYPE(tree);
  if (type == &PyTuple_Type) {
    Py_ssize_t size = PyTuple_Size(tree);
    add_number(node(kTuple, size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      Walked found = add_tree(PyTuple_GetItem(tree, i), depth + 1);
      if (found != Walked::kUsual) return found;
    }
    return Walked::kUsual;
  }
  if (type == &PyList_Type) {
    Py_ssize_t size = PyList_Size(tree);
    add_number(node(kList, size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      Walked found = add_tree(PyList_GetItem(tree, i), depth + 1);
      if (found != Walked::kUsual) return found;
    }
    return Walked::kUsual;
  }
  if (type == &PyDict_Type) {
    add_number(node(kDict, PyDict_Size(tree)));
    PyObject *name = nullptr, *child = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(tree, &position, &name, &child)) {
      if (!PyUnicode_CheckExact(name)) return Walked::kUnusual;
      if (!add_text(name)) return Walked::kFailed;
      Walked found = add_tree(child, depth + 1);
      if (found != Walked::kUsual) return found;
    }
    return Walked::kUsual;
  }
  if (tree == Py_None) {
    add_number(node(kNone));
    return Walked::kUsual;
  }
  if (is_numpy_array(tree)) return add_foreign_array(tree);
  Node kind = kNone;
  if (type == &PyFloat_Type) {
    kind = kFloat;
  } else if (type == &PyLong_Type) {
    kind = kInt;
  } else if (type == &PyBool_Type) {
    kind = kBool;
  } else if (type == &PyComplex_Type) {
    kind = kComplex;
  } else {
    return Walked::kUnusual;
  }
  add_number(node(kind));
  leaves_.push_back(tree);
  has_foreign_ = true;
  return Walked::kUsual;
}

bool CallKey::add_statics(PyObject* args, PyObject* kwargs, const StaticArguments& statics) {
  Py_ssize_t count = PyTuple_Size(args);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (is_static(statics, i, count) && !add_value(PyTuple_GetItem(args, i))) return false;
  }
  if (kwargs == nullptr || !statics.names) return true;
  PyObject *name = nullptr, *argument = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(kwargs, &position, &name, &argument)) {
    int fixed = is_static_name(statics, name);
    if (fixed < 0 || (fixed && (!add_text(name) || !add_value(argument)))) return false;
  }
  return true;
}

Walked CallKey::add_call(PyObject* trace_key, PyObject* args, PyObject* kwargs,
                         const StaticArguments& statics) {
  Walked walked = add_all(trace_key, args, kwargs, statics);
  if (walked != Walked::kUsual || unknown_.empty()) return walked;
  std::vector<PyRef> unknown = std::move(unknown_);
  for (const PyRef& sharding : unknown) {
    if (!known_shardings().learn(sharding)) return Walked::kFailed;
  }
  // That has run Python code, so that everything is looked at anew.
  words_.clear();
  kinds_.clear();
  leaves_.clear();
  unknown_.clear();
  hash_ = 0;
  device_ = nullptr;
  committed_ = has_values_ = has_foreign_ = is_sharded_ = false;
  walked = add_all(trace_key, args, kwargs, statics);
  return walked == Walked::kUsual && !unknown_.empty() ? Walked::kUnusual : walked;
}

Walked CallKey::add_all(PyObject* trace_key, PyObject* args, PyObject* kwargs,
                        const StaticArguments& statics) {
  add_identity(trace_key);
  // First, because their hashes may run Python code, and later nothing does.
  if (statics.any() && !add_statics(args, kwargs, statics)) return Walked::kFailed;
  Py_ssize_t count = PyTuple_Size(args);
  add_number(node(kTuple, count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!statics.positions.empty() && is_static(statics, i, count)) continue;
    Walked found = add_tree(PyTuple_GetItem(args, i), 0);
    if (found != Walked::kUsual) return found;
  }
  if (kwargs != nullptr && PyDict_Size(kwargs) != 0) {
    add_number(node(kKeywords, PyDict_Size(kwargs)));
    PyObject *name = nullptr, *argument = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(kwargs, &position, &name, &argument)) {
      if (!PyUnicode_CheckExact(name)) return Walked::kUnusual;
      if (is_static_name(statics, name) != 0) continue;
      if (!add_text(name)) return Walked::kFailed;
      Walked found = add_tree(argument, 0);
      if (found != Walked::kUsual) return found;
    }
  }
  if (device_ == nullptr) return Walked::kUsual;
  add_identity(device_);
  // What is on one device goes to all of them: the Python path moves it.
  return is_sharded_ ? Walked::kUnusual : Walked::kUsual;
}

void CallKey::hold(std::vector<PyRef>& owners) const {
  for (PyObject* leaf : leaves_) owners.push_back(PyRef::borrow(leaf));
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (kinds_[i] != Word::kNumber) {
      owners.push_back(PyRef::borrow(reinterpret_cast<PyObject*>(words_[i])));
    }
  }
}

StoredKey::StoredKey(const CallKey& key) : hash_(key.hash()) {
  for (std::size_t i = 0; i < key.size(); ++i) {
    words_.push_back(key.word(i));
    kinds_.push_back(key.kind(i));
    if (key.kind(i) != Word::kNumber) {
      objects_.push_back(PyRef::borrow(reinterpret_cast<PyObject*>(key.word(i))));
    }
  }
}

bool StoredKey::matches_quickly(const CallKey& key) const {
  if (hash_ != key.hash() || words_.size() != key.size()) return false;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (kinds_[i] != key.kind(i)) return false;
    if (words_[i] == key.word(i) || kinds_[i] == Word::kValue) continue;
    if (kinds_[i] != Word::kText) return false;
    auto* mine = reinterpret_cast<PyObject*>(words_[i]);
    auto* other = reinterpret_cast<PyObject*>(key.word(i));
    if (PyUnicode_Compare(mine, other) != 0) return false;
  }
  return true;
}

int StoredKey::matches_values(const CallKey& key) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (kinds_[i] != Word::kValue || words_[i] == key.word(i)) continue;
    int same = PyObject_RichCompareBool(reinterpret_cast<PyObject*>(words_[i]),
                                        reinterpret_cast<PyObject*>(key.word(i)), Py_EQ);
    if (same != 1) return same;
  }
  return 1;
}

int StoredKey::traverse(visitproc visit, void* arg) const {
  for (const PyRef& object : objects_) Py_VISIT(object.get());
  return 0;
}

// ---- the order of leaves

namespace {

class LeafOrder {
 public:
  using Leaves = std::vector<std::uint32_t>;

  // The leaves of `tree` in the order of a pytree, by their number in the order of the walk.
  Leaves of(PyObject* tree) {
    Leaves found;
    if (PyTuple_CheckExact(tree)) {
      for (Py_ssize_t i = 0; i < PyTuple_Size(tree); ++i) {
        append(found, of(PyTuple_GetItem(tree, i)));
      }
    } else if (PyList_CheckExact(tree)) {
      for (Py_ssize_t i = 0; i < PyList_Size(tree); ++i) append(found, of(PyList_GetItem(tree, i)));
    } else if (PyDict_CheckExact(tree)) {
      found = of_items(tree, nullptr);
    } else if (tree != Py_None) {
      found.push_back(next_++);
    }
    return found;
  }

  // Those of a dictionary's values, but for those whose names are static.
  Leaves of_items(PyObject* items, const StaticArguments* statics) {
    std::vector<std::pair<PyObject*, Leaves>> parts;
    PyObject *name = nullptr, *child = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(items, &position, &name, &child)) {
      if (statics != nullptr && is_static_name(*statics, name) != 0) continue;
      parts.emplace_back(name, of(child));
    }
    std::sort(parts.begin(), parts.end(),
              [](const auto& a, const auto& b) { return PyUnicode_Compare(a.first, b.first) < 0; });
    Leaves found;
    for (const auto& part : parts) append(found, part.second);
    return found;
  }

  static void append(Leaves& to, const Leaves& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

 private:
  std::uint32_t next_ = 0;
};

}  // namespace

std::vector<std::uint32_t> leaf_order(PyObject* args, PyObject* kwargs,
                                      const StaticArguments& statics) {
  LeafOrder order;
  LeafOrder::Leaves found;
  Py_ssize_t count = PyTuple_Size(args);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_static(statics, i, count)) LeafOrder::append(found, order.of(PyTuple_GetItem(args, i)));
  }
  if (kwargs != nullptr) LeafOrder::append(found, order.of_items(kwargs, &statics));
  bool sorted = std::is_sorted(found.begin(), found.end());
  return sorted ? std::vector<std::uint32_t>() : found;
}

}  // namespace xpr
