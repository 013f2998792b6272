// Calls of programs that several devices run, each on its own parts of the arrays.
#include "bind_devices.h"

#include <algorithm>

#include "block_object.h"
#include "ended_threads.h"
#include "numpy_arrays.h"
#include "refusal.h"

namespace xpr {

namespace nb = nanobind;

namespace {

template <typename T>
std::vector<T> numbers_of(nb::handle sequence) {
  std::vector<T> found;
  for (nb::handle number : nb::borrow<nb::sequence>(sequence)) found.push_back(nb::cast<T>(number));
  return found;
}

std::vector<StageInput> inputs_of(nb::handle sequence) {
  std::vector<StageInput> found;
  for (nb::handle input : nb::borrow<nb::sequence>(sequence)) {
    nb::object column = input[0], device = input[1];
    auto number = nb::cast<std::int64_t>(device);
    found.push_back({nb::cast<std::uint32_t>(column),
                     number < 0 ? StageInput::kOwn : static_cast<std::uint32_t>(number)});
  }
  return found;
}

bool is_deleted(PyObject* buffer) {
  return is_none(slot(buffer, classes.host)) && is_none(slot(buffer, classes.view)) &&
         is_none(slot(buffer, classes.block));
}

// The parts of an array of several devices; null where they are elsewhere, or not so many.
PyObject* parts_of(PyObject* array, std::size_t count) {
  PyObject* buffers = slot(array, classes.buffers);
  if (is_none(buffers) || !PyTuple_CheckExact(buffers) ||
      PyTuple_Size(buffers) != static_cast<Py_ssize_t>(count)) {
    return nullptr;
  }
  return buffers;
}

PyObject* item(PyObject* tuple, std::size_t index) {
  return PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(index));
}

// One run, which a function of Python's makes while others may have Python's lock.
struct DeviceRun {
  const DevicePrograms* programs = nullptr;
  Block* table = nullptr;

  void run() {
    if (table == nullptr) throw nb::value_error("this run is over");
    LockReleased others_may_run;
    programs->run(table);
  }
};

}  // namespace

DeviceCall::DeviceCall(nb::sequence devices, std::size_t columns, nb::sequence stages,
                       nb::sequence front, nb::sequence leaves, nb::sequence results,
                       nb::sequence written, nb::sequence given_up, nb::handle run) {
  for (nb::handle device : devices) devices_.push_back(PyRef::borrow(device.ptr()));
  std::vector<DeviceStage> found;
  for (nb::handle one : stages) {
    nb::object program = one[0], inputs = one[1], outputs = one[2], source = one[3];
    if (!nb::isinstance<Program>(program)) throw nb::type_error("a stage needs a Program");
    found.push_back({nb::inst_ptr<Program>(program), inputs_of(inputs),
                     numbers_of<std::uint32_t>(outputs), numbers_of<std::uint32_t>(source)});
    held_.push_back(PyRef::borrow(program.ptr()));
  }
  programs_ = std::make_unique<DevicePrograms>(devices_.size(), columns, std::move(found));
  for (nb::handle one : front) {
    nb::object column = one[0], buffers = one[1];
    Front made{nb::cast<std::size_t>(column), {}};
    for (nb::handle buffer : nb::borrow<nb::sequence>(buffers)) {
      if (Py_TYPE(buffer.ptr()) != classes.buffer) throw nb::type_error("it takes HostBuffers");
      made.buffers.push_back(PyRef::borrow(buffer.ptr()));
    }
    require(made.column < columns && made.buffers.size() == devices_.size(),
            "a constant has another number of parts");
    front_.push_back(std::move(made));
  }
  for (nb::handle one : leaves) {
    nb::object column = one[0], dtype = one[1];
    Leaf leaf{nb::cast<std::size_t>(column), dtype.is_none() ? -1 : type_number(dtype.ptr())};
    require(leaf.column < columns, "an argument is an array that does not exist");
    require(leaf.type < 0 || programs_->bytes(leaf.column) != DevicePrograms::kUnused,
            "a number is read by no program");
    leaves_.push_back(leaf);
  }
  for (nb::handle one : results) {
    nb::object column = one[0], kind = one[1], sharding = one[2];
    Result result{nb::cast<std::size_t>(column), nullptr, PyRef::borrow(kind.ptr()),
                  PyRef::borrow(sharding.ptr()), kNone,   kNone};
    for (const DeviceStage& stage : programs_->stages()) {
      if (std::count(stage.outputs.begin(), stage.outputs.end(), result.column) != 0) {
        result.source = &stage.source;
      }
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (leaves_[i].column == result.column && leaves_[i].type < 0) result.leaf = i;
    }
    for (std::size_t k = 0; k < results_.size(); ++k) {
      if (results_[k].column == result.column) result.earlier = k;
    }
    require(result.source != nullptr || result.leaf != kNone, "a result is made by no program");
    results_.push_back(std::move(result));
  }
  holds_ = nb::len(given_up) != 0;
  for (const Result& result : results_) holds_ |= result.leaf != kNone;
  given_up_ = numbers_of<std::size_t>(given_up);
  for (std::size_t leaf : given_up_) {
    require(leaf < leaves_.size() && leaves_[leaf].type < 0, "what is donated is no array");
  }
  for (nb::handle one : written) {
    nb::object leaf = one[0], source = one[1];
    Written made{nb::cast<std::size_t>(leaf), numbers_of<std::uint32_t>(source)};
    require(std::count(given_up_.begin(), given_up_.end(), made.leaf) == 1 &&
                made.source.size() == devices_.size(),
            "what is written to is not donated");
    written_.push_back(std::move(made));
  }
  if (!run.is_none()) run_ = PyRef::borrow(run.ptr());
}

// One call: its arguments, and the blocks that they and the results are.
class DeviceCall::Call {
 public:
  Call(const DeviceCall& owner, const CallKey& key, const std::vector<std::uint32_t>& operands)
      : owner_(owner), programs_(*owner.programs_), key_(key), operands_(operands) {
    std::size_t count = programs_.column_count() * programs_.device_count();
    if (count > kFew) {
      many_.resize(count);
      table_ = many_.data();
    }
  }

  Block* table() { return table_; }

  // Fills in the arguments' blocks; has them made for arrays that no program has used so far.
  Ran read() {
    bool unready = false;
    if (owner_.holds_) key_.hold(held_);
    if (!read_arrays(unready)) return Ran::kNot;
    if (unready) {
      key_.hold(held_);
      if (!make_blocks()) {
        PyErr_Clear();  // the Python path comes to the same
        return Ran::kNot;
      }
      unready = false;
      if (!read_arrays(unready) || unready) return Ran::kNot;
    }
    return read_numbers() ? Ran::kWell : Ran::kNot;
  }

  // Replaces the blocks of donated arguments by ones that nobody else sees.
  Ran take_donated() {
    // What waits there may still have to read what is donated: the Python path waits for it.
    for (const PyRef& device : owner_.devices_) {
      int waiting = has_programs_waiting(device.get());
      if (waiting != 0) return waiting < 0 ? Ran::kFailed : Ran::kNot;
    }
    if (!is_each_given_once()) return Ran::kNot;  // the Python path refuses that
    for (const Written& written : owner_.written_) give_up_parts(written, false);
    for (const Written& written : owner_.written_) {
      PyObject* parts = parts_of(argument(written.leaf), programs_.device_count());
      for (std::size_t d = 0; d < programs_.device_count(); ++d) {
        if (written.source[d] != d) continue;
        Block& place = block(owner_.leaves_[written.leaf].column, d);
        if (!take_block(item(parts, d), place)) return Ran::kFailed;
      }
    }
    for (const Written& written : owner_.written_) give_up_parts(written, true);
    return Ran::kWell;
  }

  // Deletes what was donated, written to or not.
  void give_up() {
    for (std::size_t leaf : owner_.given_up_) {
      bool is_known = std::any_of(owner_.written_.begin(), owner_.written_.end(),
                                  [&](const Written& written) { return written.leaf == leaf; });
      std::vector<PyObject*> buffers;
      if (!is_known) append_parts(leaf, buffers);
      for (PyObject* buffer : buffers) donations_.add(PyRef::borrow(buffer));
      PyRef old = PyRef::steal(
          std::exchange(slot(argument(leaf), classes.deleted), PyRef::borrow(Py_True).release()));
    }
  }

 private:
  PyObject* argument(std::size_t leaf) const { return key_.leaf(operands_[leaf]); }
  Block& block(std::size_t column, std::size_t device) {
    return table_[column * programs_.device_count() + device];
  }

  // Reads one buffer's block; false for one that the Python path has to look at.
  bool read_buffer(PyObject* buffer, std::size_t column, std::size_t device, bool& unready) {
    if (Py_TYPE(buffer) != classes.buffer || is_deleted(buffer)) return false;
    std::size_t bytes = programs_.bytes(column);
    if (bytes == DevicePrograms::kUnused) return true;
    PyObject* found = slot(buffer, classes.block);
    if (is_none(found)) {
      unready = true;
      return true;
    }
    Block& place = block(column, device);
    place = *nb::inst_ptr<Block>(nb::handle(found));
    return place.size == bytes;
  }

  // Runs no Python code.
  bool read_arrays(bool& unready) {
    std::size_t devices = programs_.device_count();
    for (const Front& front : owner_.front_) {
      for (std::size_t d = 0; d < devices; ++d) {
        if (!read_buffer(front.buffers[d].get(), front.column, d, unready)) return false;
      }
    }
    for (std::size_t i = 0; i < owner_.leaves_.size(); ++i) {
      PyObject* array = argument(i);
      if (!is_sharded_array(array)) continue;
      PyObject* parts = parts_of(array, devices);
      if (parts == nullptr || slot(array, classes.deleted) != Py_False) return false;
      for (std::size_t d = 0; d < devices; ++d) {
        if (!read_buffer(item(parts, d), owner_.leaves_[i].column, d, unready)) return false;
      }
    }
    return true;
  }

  bool read_numbers() {
    for (std::size_t i = 0; i < owner_.leaves_.size(); ++i) {
      const Leaf& leaf = owner_.leaves_[i];
      if (leaf.type < 0) continue;
      Block& first = block(leaf.column, 0);
      if (!read_number(argument(i), leaf.type, programs_.bytes(leaf.column), first)) return false;
      for (std::size_t d = 1; d < programs_.device_count(); ++d) block(leaf.column, d) = first;
    }
    return true;
  }

  // Has blocks made for the arrays that have none; false with an exception set.
  bool make_blocks() {
    for (const Front& front : owner_.front_) {
      for (const PyRef& buffer : front.buffers) {
        if (!block_object(buffer.get())) return false;
      }
    }
    for (std::size_t i = 0; i < owner_.leaves_.size(); ++i) {
      PyObject* array = argument(i);
      bool is_read = programs_.bytes(owner_.leaves_[i].column) != DevicePrograms::kUnused;
      if (!is_read || !is_sharded_array(array)) continue;
      PyRef parts = PyRef::borrow(parts_of(array, programs_.device_count()));
      for (std::size_t d = 0; parts && d < programs_.device_count(); ++d) {
        PyRef buffer = PyRef::borrow(item(parts.get(), d));
        if (!block_object(buffer.get())) return false;
      }
    }
    return true;
  }

  // Whether no buffer that is donated is an operand a second time.
  bool is_each_given_once() const {
    std::vector<PyObject*> all;
    for (const Front& front : owner_.front_) {
      for (const PyRef& buffer : front.buffers) all.push_back(buffer.get());
    }
    for (std::size_t i = 0; i < owner_.leaves_.size(); ++i) append_parts(i, all);
    std::sort(all.begin(), all.end());
    std::vector<PyObject*> given;
    for (std::size_t leaf : owner_.given_up_) append_parts(leaf, given);
    return std::all_of(given.begin(), given.end(), [&](PyObject* buffer) {
      auto found = std::equal_range(all.begin(), all.end(), buffer);
      return found.second - found.first == 1;
    });
  }

  void append_parts(std::size_t leaf, std::vector<PyObject*>& buffers) const {
    if (owner_.leaves_[leaf].type >= 0) return;
    PyObject* parts = parts_of(argument(leaf), programs_.device_count());
    for (std::size_t d = 0; d < programs_.device_count(); ++d) buffers.push_back(item(parts, d));
  }

  // Those that a program writes to are deleted when it has run. Others, for which one device's
  // program computes, are deleted before: they may have the memory that it writes to.
  void give_up_parts(const Written& written, bool are_written_to) {
    Donations now;
    PyObject* parts = parts_of(argument(written.leaf), programs_.device_count());
    for (std::size_t d = 0; d < programs_.device_count(); ++d) {
      if ((written.source[d] == d) != are_written_to) continue;
      (are_written_to ? donations_ : now).add(PyRef::borrow(item(parts, d)));
    }
  }

  static constexpr std::size_t kFew = 32;
  const DeviceCall& owner_;
  const DevicePrograms& programs_;
  const CallKey& key_;
  const std::vector<std::uint32_t>& operands_;
  Block few_[kFew];
  std::vector<Block> many_;
  Block* table_ = few_;
  std::vector<PyRef> held_;
  Donations donations_;
};

// False with an exception set, or thrown.
bool DeviceCall::run_programs(Block* table) const {
  if (!run_) {
    programs_->run(table);
    return true;
  }
  nb::object run = nb::cast(DeviceRun{programs_.get(), table});
  PyRef done = PyRef::steal(call_with(run_.get(), run.ptr()));
  nb::inst_ptr<DeviceRun>(run)->table = nullptr;  // which whoever kept `run` must not use
  return static_cast<bool>(done);
}

PyObject* DeviceCall::make_result(const Result& result, PyObject* aval, Block* table) const {
  std::size_t count = devices_.size();
  PyRef parts = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t d = 0; parts && d < count; ++d) {
    PyObject* device = devices_[d].get();
    std::uint32_t from = (*result.source)[d];
    PyRef buffer;
    if (from == d) {
      Block& made = table[result.column * count + d];
      PyRef block = PyRef::steal(nb::cast(std::move(made), nb::rv_policy::move).release().ptr());
      if (block) {
        buffer = PyRef::steal(make_block_buffer(block.get(), result.kind.get(), device));
      }
    } else {
      PyObject* first = item(parts.get(), from);
      PyRef host = PyRef::borrow(slot(first, classes.host));
      if (is_none(host.get())) {
        // References to the array tell each of those that have the memory about the others.
        host = PyRef::steal(call_python(
            [&] { return PyObject_CallMethodObjArgs(first, around.host_view_name, nullptr); }));
      }
      if (host) buffer = PyRef::steal(make_seen_buffer(first, device));
    }
    if (!buffer) return nullptr;
    PyTuple_SetItem(parts.get(), static_cast<Py_ssize_t>(d), buffer.release());
  }
  return parts ? make_sharded_array(aval, parts.release(), result.sharding.get()) : nullptr;
}

// An array of its own over the memory of another one, which is an argument or an earlier result.
PyObject* DeviceCall::make_alias(const Result& result, PyObject* aval, PyObject* array) const {
  std::size_t count = devices_.size();
  PyRef from = PyRef::borrow(parts_of(array, count));
  PyRef parts = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t d = 0; parts && d < count; ++d) {
    PyObject* alias = call_python([&] {
      return PyObject_CallMethodObjArgs(item(from.get(), d), around.alias_name, nullptr);
    });
    if (alias == nullptr) return nullptr;
    PyTuple_SetItem(parts.get(), static_cast<Py_ssize_t>(d), alias);
  }
  return parts ? make_sharded_array(aval, parts.release(), result.sharding.get()) : nullptr;
}

Ran DeviceCall::run(const CallKey& key, const std::vector<std::uint32_t>& operands,
                    const std::vector<PyRef>& avals, const ResultTree& tree,
                    PyObject*& answer) const {
  Call call(*this, key, operands);
  try {
    Ran ran = call.read();
    if (ran == Ran::kWell && !given_up_.empty()) ran = call.take_donated();
    if (ran != Ran::kWell) return ran;
    if (!run_programs(call.table())) {
      if (!given_up_.empty() || !PyErr_ExceptionMatches(PyExc_Exception)) return Ran::kFailed;
      PyErr_Clear();  // the Python path comes to the same
      return Ran::kNot;
    }
  } catch (const std::exception& error) {
    if (given_up_.empty()) return Ran::kNot;  // the Python path comes to the same
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return Ran::kFailed;
  }
  call.give_up();
  SmallVector<PyObject*, 16> leaves;
  for (std::size_t k = 0; k < results_.size(); ++k) {
    const Result& result = results_[k];
    PyObject* known = nullptr;
    if (result.leaf != kNone) known = key.leaf(operands[result.leaf]);
    if (result.earlier != kNone) known = leaves[result.earlier];
    PyObject* aval = avals[k].get();
    PyObject* array = known == nullptr ? make_result(result, aval, call.table())
                                       : make_alias(result, aval, known);
    if (array == nullptr) {
      for (PyObject* made : leaves) Py_DECREF(made);
      return Ran::kFailed;
    }
    leaves.push_back(array);
  }
  answer = tree.build(leaves.data());
  return answer == nullptr ? Ran::kFailed : Ran::kWell;
}

void bind_devices(nb::module_& module) {
  nb::class_<DeviceRun>(module, "DeviceRun", "One run of `DevicePrograms`.")
      .def("__call__", &DeviceRun::run, "Runs them without Python's lock.");
  nb::class_<DeviceCall>(module, "DevicePrograms",
                         "Programs that several devices run, none of which waits for another.")
      .def(nb::init<nb::sequence, std::size_t, nb::sequence, nb::sequence, nb::sequence,
                    nb::sequence, nb::sequence, nb::sequence, nb::handle>(),
           nb::arg("devices"), nb::arg("columns"), nb::arg("stages"), nb::arg("front"),
           nb::arg("leaves"), nb::arg("results"), nb::arg("written"), nb::arg("given_up"),
           nb::arg("run").none());
}

}  // namespace xpr
