// Programs, called with a list of blocks.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bind_interruption.h"
#include "block_object.h"
#include "interruption.h"
#include "kernel.h"
#include "refusal.h"
#include "thread_pool.h"

namespace nb = nanobind;

namespace xpr {
namespace {

ArrayType array_type(nb::handle source) {
  auto pair = nb::cast<std::pair<nb::object, size_t>>(source);
  ArrayType made;
  for (nb::handle extent : pair.first) {
    int64_t size = 0;
    // A damaged bundle may have anything here.
    if (!nb::try_cast(extent, size)) throw Refusal("a shape that is not of integers");
    made.shape.push_back(size);
  }
  made.item_size = pair.second;
  return made;
}

std::vector<ArrayType> array_types(nb::handle sources) {
  std::vector<ArrayType> made;
  for (nb::handle source : sources) made.push_back(array_type(source));
  return made;
}

void load(Program* place, nb::bytes file, const std::string& entry, nb::sequence inputs,
          nb::sequence outputs, std::vector<bool> donated, nb::sequence host,
          std::vector<std::pair<uint32_t, uint32_t>> pairs, bool elementwise, bool may_run_long) {
  Reuse reuse{std::move(donated), {}, elementwise};
  reuse.results.resize(reuse.donated.size(), Reuse::kNone);
  for (auto [argument, result] : pairs) {
    require(argument < reuse.results.size(), "a donated argument does not exist");
    reuse.results[argument] = result;
  }
  std::vector<HostFunction> functions;
  for (nb::handle one : host) {
    nb::object symbol = one[0], taken = one[1], returned = one[2];
    functions.push_back({nb::cast<std::string>(symbol), array_types(taken), array_types(returned)});
  }
  new (place)
      Program({static_cast<const uint8_t*>(file.data()), file.size()}, entry, array_types(inputs),
              array_types(outputs), std::move(reuse), std::move(functions));
  place->set_may_run_long(may_run_long);
}

// Functions of this process, called by a function of Python's: (number, blocks) -> blocks.
class PythonHostCalls final : public HostCalls {
 public:
  explicit PythonHostCalls(nb::handle function) : function_(function) {}

  std::vector<Block> call(size_t number, std::vector<Block> arguments) override {
    NoFlushToZero python;
    nb::gil_scoped_acquire lock;
    nb::list given;
    for (Block& block : arguments) given.append(nb::cast(std::move(block), nb::rv_policy::move));
    nb::object returned = function_(number, given);
    std::vector<Block> made;
    for (nb::handle block : returned) made.push_back(block_of(block));
    return made;
  }

 private:
  nb::handle function_;  // which the caller of the program holds
};

nb::list call(const Program& program, nb::list given, bool parallel, bool keeps_lock,
              nb::object host, nb::object times) {
  size_t count = program.argument_count();
  if (given.size() != count) {
    throw nb::type_error(("the program takes " + std::to_string(count) + " arguments, got " +
                          std::to_string(given.size()))
                             .c_str());
  }
  constexpr size_t kFew = 16;
  Block few_arguments[kFew], few_results[kFew];
  std::vector<Block> many_arguments, many_results;
  Block* arguments = few_arguments;
  if (count > kFew) {
    many_arguments.resize(count);
    arguments = many_arguments.data();
  }
  Block* results = few_results;
  if (program.result_count() > kFew) {
    many_results.resize(program.result_count());
    results = many_results.data();
  }
  for (size_t i = 0; i < count; ++i) {
    arguments[i] = block_of(given[i]);
    if (arguments[i].size != program.input_bytes(i)) {
      throw nb::type_error(("argument " + std::to_string(i) + " has " +
                            std::to_string(arguments[i].size) + " bytes, the program takes " +
                            std::to_string(program.input_bytes(i)))
                               .c_str());
    }
  }
  PythonHostCalls calls(host);
  HostCalls* calls_if_any = host.is_none() ? nullptr : &calls;
  std::optional<TimedKernels> timed;
  if (!times.is_none()) timed.emplace();
  if (keeps_lock) {
    program.run(arguments, results, parallel, calls_if_any);
  } else {
    run_without_lock(program, arguments, results, parallel, calls_if_any);
  }
  if (timed) {
    for (const KernelTime& time : timed->times) {
      times.attr("append")(nb::make_tuple(time.name, time.start, time.end - time.start));
    }
  }
  nb::list made;
  for (size_t k = 0; k < program.result_count(); ++k) {
    made.append(nb::cast(std::move(results[k]), nb::rv_policy::move));
  }
  return made;
}

}  // namespace

void bind_programs(nb::module_& module) {
  module.def("interrupt_thread", &interrupt_thread, nb::arg("thread"),
             "Ends the program that the thread with this number runs, if it can be ended.");
  module.def(
      "use_threads",
      [](int count) {
        if (count < 1) throw nb::value_error("programs need a thread");
        use_threads(count);
      },
      nb::arg("count"), "Has programs from now on run on as many threads as this.");
  // NOLINTBEGIN(bugprone-unused-raii,bugprone-throw-keyword-missing): these define classes
  nb::exception<Refusal>(module, "Refusal", PyExc_ValueError);
  nb::exception<ProgramError>(module, "ProgramError", PyExc_RuntimeError);
  // NOLINTEND(bugprone-unused-raii,bugprone-throw-keyword-missing)
  nb::class_<Program>(module, "Program", "A compiled module's function, run without IREE.")
      .def("__init__", &load, nb::arg("file"), nb::arg("entry"), nb::arg("inputs"),
           nb::arg("outputs"), nb::arg("donated"), nb::arg("host") = nb::tuple(),
           nb::arg("pairs") = std::vector<std::pair<uint32_t, uint32_t>>(),
           nb::arg("elementwise") = false, nb::arg("may_run_long") = false)
      .def("__call__", &call, nb::arg("arguments"), nb::arg("parallel"), nb::arg("keeps_lock"),
           nb::arg("host") = nb::none(), nb::arg("times") = nb::none(),
           "A list as `times` gets when each kernel ran: its name, start and duration, in "
           "nanoseconds of the steady clock.")
      .def_prop_ro("is_fixed", &Program::is_fixed,
                   "Whether it does the same steps in each call, whatever the values are.")
      .def("describe", &Program::describe, "What it does, in a few words.");
}

}  // namespace xpr
