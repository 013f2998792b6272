// The pytree of a program's results.
#pragma once

#include <vector>

#include "python_objects.h"

namespace xpr {

// Puts flat results into tuples, lists and dictionaries; other nodes are left to a function of
// Python's.
class ResultTree {
 public:
  // `example` is the tree with an Ellipsis for each leaf; `unflatten` makes one from a list.
  ResultTree(PyObject* example, std::size_t leaf_count, PyObject* unflatten);

  std::size_t leaf_count() const { return leaf_count_; }
  bool is_single() const { return nodes_.size() == 1 && nodes_[0].kind == kLeaf; }

  // The tree with these leaves, whose references it takes; null with an exception set.
  PyObject* build(PyObject** leaves) const;
  int traverse(visitproc visit, void* arg) const;

 private:
  enum Kind { kLeaf, kNone, kTuple, kList, kDict };
  struct Node {
    Kind kind;
    Py_ssize_t size;
    std::vector<PyRef> names;
  };

  bool add(PyObject* example);
  PyObject* build_node(const Node*& next, PyObject**& leaves) const;

  std::vector<Node> nodes_;  // each one before its children
  PyRef unflatten_;          // none where the nodes are enough
  std::size_t leaf_count_;
};

}  // namespace xpr
