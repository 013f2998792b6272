// Calls of programs that several devices run.
#pragma once

#include "call_key.h"
#include "call_state.h"
#include "device_programs.h"
#include "result_tree.h"

namespace xpr {

// Programs of several devices with all that a call of them needs: `_native.DevicePrograms`.
class DeviceCall {
 public:
  // `stages` are (program, inputs, outputs, source), with (column, device) for each input, and a
  // negative device for the one that runs it. `front` are (column, buffers): arrays that are the
  // same in each call. `leaves` are (column, dtype), in the order of the arguments' leaves; the
  // dtype is that of a Python number, and None for arrays. `results` are (column, type of a part,
  // sharding). `written` are (leaf, source): arrays that a program with that source may write to,
  // and `given_up` the leaves that are deleted after a call. `run` gets a `DeviceRun` to be called
  // where Python's lock is not to be held meanwhile; None where it is.
  DeviceCall(nanobind::sequence devices, std::size_t columns, nanobind::sequence stages,
             nanobind::sequence front, nanobind::sequence leaves, nanobind::sequence results,
             nanobind::sequence written, nanobind::sequence given_up, nanobind::handle run);

  std::size_t leaf_count() const { return leaves_.size(); }
  std::size_t result_count() const { return results_.size(); }

  // Answers a call. `operands` are the numbers of the leaves in the key, `avals` the types of the
  // results.
  Ran run(const CallKey& key, const std::vector<std::uint32_t>& operands,
          const std::vector<PyRef>& avals, const ResultTree& tree, PyObject*& answer) const;

 private:
  struct Leaf {
    std::size_t column;
    int type;  // of a number
  };
  struct Front {
    std::size_t column;
    std::vector<PyRef> buffers;
  };
  struct Result {
    std::size_t column;
    const std::vector<std::uint32_t>* source;  // none for what no program makes
    PyRef kind;
    PyRef sharding;
    std::size_t leaf;     // the argument that it is, or `kNone`
    std::size_t earlier;  // the result that it is once more, or `kNone`
  };
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Written {
    std::size_t leaf;
    std::vector<std::uint32_t> source;
  };
  class Call;

  bool run_programs(Block* table) const;
  PyObject* make_result(const Result& result, PyObject* aval, Block* table) const;
  PyObject* make_alias(const Result& result, PyObject* aval, PyObject* array) const;

  std::vector<PyRef> devices_;
  std::vector<PyRef> held_;  // the programs
  std::unique_ptr<DevicePrograms> programs_;
  std::vector<Front> front_;
  std::vector<Leaf> leaves_;
  std::vector<Result> results_;
  std::vector<Written> written_;
  std::vector<std::size_t> given_up_;
  bool holds_ = false;  // whether arguments are looked at again when the programs have run
  PyRef run_;
};

void bind_devices(nanobind::module_& module);

}  // namespace xpr
