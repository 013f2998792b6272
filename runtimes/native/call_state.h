// What calls of jitted functions depend on, and what all ways of answering one have in common.
#pragma once

#include "arrays.h"
#include "program.h"

namespace xpr {

// What `learn_calls` is told: where the current trace and the key of the settings are found.
struct Surroundings {
  PyObject* context = nullptr;
  PyObject* eager = nullptr;
  PyObject* settings = nullptr;
  PyObject* trace_name = nullptr;
  PyObject* trace_key_name = nullptr;
  PyObject* first_call_name = nullptr;
  PyObject* python_call_name = nullptr;
  PyObject* native_block_name = nullptr;
  PyObject* private_block_name = nullptr;
  PyObject* host_view_name = nullptr;
  PyObject* alias_name = nullptr;
  PyObject* delete_name = nullptr;
  PyObject* queue_name = nullptr;
  PyObject* is_idle_name = nullptr;
  PyObject* guard_name = nullptr;
};
inline Surroundings around;

enum class Ran { kWell, kFailed, kNot };  // kNot: the Python path has to answer, or to refuse

// Whether a block is all that a buffer consists of.
inline bool is_block_alone(PyObject* buffer) {
  return is_none(slot(buffer, classes.host)) && is_none(slot(buffer, classes.view)) &&
         is_none(slot(buffer, classes.memory)) && !is_none(slot(buffer, classes.block));
}

// The block of a buffer, which makes it on first use; null with an exception set.
PyRef block_object(PyObject* buffer);

// A Python number as an array of `size` bytes; false where it does not fit or may not be taken.
bool read_number(PyObject* number, int type, std::size_t size, Block& block);

// Whether programs wait for the device or run: 1 or 0, or -1 with an exception set.
int has_programs_waiting(PyObject* device);

// A block with the values of a donated buffer that nobody else sees: `block` as it is, or another
// one. False with an exception set.
bool take_block(PyObject* buffer, Block& block);

// Donated buffers, which one call gives up in the end, whatever comes of it.
class Donations {
 public:
  ~Donations();
  void add(PyRef buffer) { buffers_.push_back(std::move(buffer)); }

 private:
  std::vector<PyRef> buffers_;
};

}  // namespace xpr
