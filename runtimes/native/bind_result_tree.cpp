#include "result_tree.h"

namespace xpr {

ResultTree::ResultTree(PyObject* example, std::size_t leaf_count, PyObject* unflatten)
    : leaf_count_(leaf_count) {
  if (!add(example)) unflatten_ = PyRef::borrow(unflatten);
}

bool ResultTree::add(PyObject* example) {
  bool known = true;
  if (example == Py_Ellipsis) {
    nodes_.push_back({kLeaf, 0, {}});
  } else if (example == Py_None) {
    nodes_.push_back({kNone, 0, {}});
  } else if (PyTuple_CheckExact(example)) {
    nodes_.push_back({kTuple, PyTuple_Size(example), {}});
    for (Py_ssize_t i = 0; i < PyTuple_Size(example) && known; ++i) {
      known = add(PyTuple_GetItem(example, i));
    }
  } else if (PyList_CheckExact(example)) {
    nodes_.push_back({kList, PyList_Size(example), {}});
    for (Py_ssize_t i = 0; i < PyList_Size(example) && known; ++i) {
      known = add(PyList_GetItem(example, i));
    }
  } else if (PyDict_CheckExact(example)) {
    std::vector<PyRef> names;
    PyObject *name = nullptr, *child = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(example, &position, &name, &child)) names.push_back(PyRef::borrow(name));
    nodes_.push_back({kDict, PyDict_Size(example), std::move(names)});
    position = 0;
    while (known && PyDict_Next(example, &position, &name, &child)) known = add(child);
  } else {
    known = false;
  }
  return known;
}

PyObject* ResultTree::build(PyObject** leaves) const {
  if (!unflatten_) {
    const Node* next = nodes_.data();
    PyObject** end = leaves + leaf_count_;
    PyObject* found = build_node(next, leaves);
    while (found == nullptr && leaves != end) Py_DECREF(*leaves++);
    return found;
  }
  PyRef list = PyRef::steal(PyList_New(static_cast<Py_ssize_t>(leaf_count_)));
  for (std::size_t i = 0; i < leaf_count_; ++i) {
    if (!list) {
      Py_DECREF(leaves[i]);
    } else {
      PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), leaves[i]);
    }
  }
  return list ? call_with(unflatten_.get(), list.get()) : nullptr;
}

PyObject* ResultTree::build_node(const Node*& next, PyObject**& leaves) const {
  const Node& node = *next++;
  switch (node.kind) {
    case kLeaf:
      return *leaves++;
    case kNone:
      return PyRef::borrow(Py_None).release();
    case kTuple: {
      PyRef tuple = PyRef::steal(PyTuple_New(node.size));
      for (Py_ssize_t i = 0; tuple && i < node.size; ++i) {
        PyObject* child = build_node(next, leaves);
        if (child == nullptr) return nullptr;
        PyTuple_SetItem(tuple.get(), i, child);
      }
      return tuple.release();
    }
    case kList: {
      PyRef list = PyRef::steal(PyList_New(node.size));
      for (Py_ssize_t i = 0; list && i < node.size; ++i) {
        PyObject* child = build_node(next, leaves);
        if (child == nullptr) return nullptr;
        PyList_SetItem(list.get(), i, child);
      }
      return list.release();
    }
    case kDict: {
      PyRef dict = PyRef::steal(PyDict_New());
      for (const PyRef& name : node.names) {
        if (!dict) return nullptr;
        PyRef child = PyRef::steal(build_node(next, leaves));
        if (!child || PyDict_SetItem(dict.get(), name.get(), child.get()) < 0) return nullptr;
      }
      return dict.release();
    }
  }
  return nullptr;
}

int ResultTree::traverse(visitproc visit, void* arg) const {
  Py_VISIT(unflatten_.get());
  for (const Node& node : nodes_) {
    for (const PyRef& name : node.names) Py_VISIT(name.get());
  }
  return 0;
}

}  // namespace xpr
