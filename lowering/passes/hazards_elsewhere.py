"""Rows of docs/hazards.md whose guards stand elsewhere than in this folder."""

from __future__ import annotations

from xpr.lowering.passes.guard import Hazard

HAZARDS = (
    Hazard(
        hazard=(
            "copies of equal values become one array, which several updates overwrite; a "
            "`stablehlo.optimization_barrier` is merged with its like, too"
        ),
        guard=("each behind a `util.optimization_barrier` (`copied` in `lowering/ir/writer.py`)"),
        tests=(
            "`test_copies_of_one_value_*` in `tests/primitives/test_updates_behind_barriers.py`"
        ),
    ),
    Hazard(
        hazard="scatter writes, gather reads outside of the buffer",
        guard="indices clamped or masked (`lowering/rules/_indexing.py`)",
        tests="`test_h2_*`, `test_h3_*`, `tests/primitives/test_out_of_bounds.py`",
    ),
    Hazard(
        hazard="sort takes quadratic time and is not stable",
        guard=(
            "NumPy by host call; a network with an index key elsewhere (`lowering/rules/sort.py`)"
        ),
        tests="`test_h4_*`; `benchmarks/hazards.py`",
    ),
    Hazard(
        hazard="sine of large arguments is wrong",
        guard="own formulas (`lowering/numerics/trigonometric.py`)",
        tests="`test_h5_*`",
    ),
    Hazard(
        hazard="conversions to integers do not saturate",
        guard="clamped before (`lowering/rules/convert.py`)",
        tests="`test_h6_*`",
    ),
    Hazard(
        hazard="powers are wrong at special values",
        guard="own formulas (`lowering/numerics/power.py`)",
        tests="`test_h7_*`",
    ),
    Hazard(
        hazard="float64 becomes float32 by default, and reads its buffers wrongly",
        guard="flags (`lowering/targets/flags.py`)",
        tests="`test_h8_*`; every float64 row of the op table",
    ),
    Hazard(
        hazard="operations that do not compile",
        guard="other forms of them",
        tests="`test_h9_*`",
    ),
    Hazard(
        hazard="cumulative sums lose digits",
        guard="sums in blocks (`lowering/rules/cumulative.py`)",
        tests="`test_h10_*`",
    ),
    Hazard(
        hazard="a warning for a right program",
        guard="none is shown",
        tests="`test_h11_*`",
    ),
    Hazard(
        hazard=(
            "two first compiles at the same time end the process: LLVM's code generators are half "
            "registered"
        ),
        guard="the first compile for a target runs alone (`lowering/iree/driver.py`)",
        tests=(
            "`test_the_first_compile_*` in `tests/lowering/test_compiler.py`, "
            "`test_sixteen_threads_*` in `tests/reliability/test_use.py`"
        ),
    ),
    Hazard(
        hazard=(
            "fusion forms dispatches that need each other's results; the search for constants "
            "behind it then sometimes does not end, by where the compiler's objects lie"
        ),
        guard=(
            "the passes of this one phase are verified, and other flags are taken "
            "(`lowering/iree/fusion_check.py`)"
        ),
        tests="`tests/lowering/test_fusion_check.py`",
    ),
    Hazard(
        hazard="data tiling fails or is slow for some products",
        guard=(
            "chosen per program, with plainer flags to fall back on (`lowering/targets/flags.py`)"
        ),
        tests="`test_h12_*`; `benchmarks/hazards.py`",
    ),
    Hazard(
        hazard="two instances, or devices freed early, end the process",
        guard="one instance and its devices, kept to the end (`runtimes/hal.py`)",
        tests="`test_h13_*`, `tests/runtimes/test_process.py`",
    ),
    Hazard(
        hazard=(
            "Python ends daemon threads that come back from IREE at the end of the process in the "
            "middle of C++ code, which aborts the process"
        ),
        guard=(
            "they are stopped before they enter IREE, and waited for inside of it "
            "(`runtimes/shutdown.py`)"
        ),
        tests="`tests/runtimes/test_shutdown.py`",
    ),
    Hazard(
        hazard=(
            "GPUs: what a barrier gives is taken for another array than what went in: the two, "
            'which are one, are freed twice or too early ("already been queued for '
            'deallocation", "no staged Vulkan backing", "was not returned by Vulkan '
            'queue_alloca")'
        ),
        guard=(
            "programs with barriers free nothing but what nobody refers to any more "
            "(`lowering/iree/remove_deallocations.py`)"
        ),
        tests="`tests/lowering/test_remove_deallocations.py`",
    ),
    Hazard(
        hazard="Vulkan: the allocator's statistics never count what is freed",
        guard="arrays are counted here (`runtimes/memory_count.py`)",
        tests="`tests/runtimes/test_memory_count.py`",
    ),
    Hazard(
        hazard=(
            "under MPI's launcher no device is made without MPI's library, which nothing here "
            "would use"
        ),
        guard=("its variables are hidden meanwhile (`without_launcher` in `runtimes/hal.py`)"),
        tests="`test_mpis_launcher_*` in `tests/runtimes/test_process.py`",
    ),
    Hazard(
        hazard="reading from a Vulkan device",
        guard="a staging buffer (`runtimes/hal_device.py`)",
        tests="every test on Vulkan",
    ),
    Hazard(
        hazard=("Vulkan: two threads of IREE's spin for as long as a software device is open"),
        guard=(
            "they give way to other work (`runtimes/_spinning_threads.py`); the loader of bundles "
            "shares the device"
        ),
        tests="`tests/runtimes/test_spinning_threads.py`",
    ),
    Hazard(
        hazard="Vulkan: programs for devices that lack a type compile, to wrong code",
        guard=(
            "refused before any compile (`lowering/targets/supported.py`); 64 bits are avoided "
            "inside of rules"
        ),
        tests="`tests/lowering/test_vulkan_types.py`",
    ),
    Hazard(
        hazard=(
            "Vulkan: a driver computes (a + b) - a as b, and x - x as 0, for NaN and infinities too"
        ),
        guard=(
            "sums that must stay are made opaque (`opaque` in `lowering/numerics/expr.py`); what "
            "is finite is asked as such (`lowering/numerics/linalg_parts.py`)"
        ),
        tests=(
            "`test_a_drivers_compiler_*` in `tests/lowering/test_vulkan_hazards.py`, "
            "`test_matrices_that_are_not_finite_*` in `tests/lowering/test_vulkan_programs.py`"
        ),
    ),
    Hazard(
        hazard=(
            "Vulkan: commands that the driver submits again keep their first buffers: loops lose "
            "updates"
        ),
        guard=("such records are turned off (`runtimes/vulkan.py`, `runtimes/bundle/iree.py`)"),
        tests=(
            "`test_commands_submitted_again_*` in `tests/lowering/test_vulkan_hazards.py`, "
            "`test_the_loader_keeps_the_updates_*` in `tests/export/test_bundle.py`"
        ),
    ),
    Hazard(
        hazard=(
            "Vulkan: invocations read from shared memory what others have yet to write: "
            "dispatches of several operations give wrong numbers now and then"
        ),
        guard=(
            "barriers are put into the compiled shaders, and what cannot be mended so is refused "
            "(`lowering/iree/shader_barriers.py`)"
        ),
        tests="`tests/lowering/test_shader_barriers.py`",
    ),
    Hazard(
        hazard=(
            "Vulkan: a driver takes the product of a constant zero and infinity or NaN for zero"
        ),
        guard=("no formula relies on it (`divide` in `lowering/numerics/complex_arithmetic.py`)"),
        tests=(
            "`test_a_driver_takes_products_*` in "
            "`tests/lowering/test_vulkan_hazards_elementwise.py`"
        ),
    ),
    Hazard(
        hazard="vmvx: complex numbers and float16 do not compile, bfloat16 becomes 0",
        guard="refused before any compile (`lowering/targets/supported.py`)",
        tests=(
            "`test_complex_numbers_*`, `test_bfloat16_*`, `test_types_that_it_lacks_*` in "
            "`tests/lowering/test_vmvx_hazards.py`"
        ),
    ),
    Hazard(
        hazard=(
            "Vulkan: arrays with symbolic dimensions that are joined along an axis behind the "
            "first hold others' values"
        ),
        guard=("choices between padded arrays (`_concatenate` in `xpr/export/symbolic_forms.py`)"),
        tests=("`test_joined_arrays_of_symbolic_size_*` in `tests/export/test_symbolic_sizes.py`"),
    ),
    Hazard(
        hazard=(
            "cumulative operations of arrays with symbolic dimensions end the compiler's process; "
            "convolutions of images, products with vectors and gathers of slices with them do not "
            "compile"
        ),
        guard=("other forms (`xpr/export/symbolic_rules.py`, `xpr/export/symbolic_forms.py`)"),
        tests="`test_a_row_of_the_table` in `tests/export/test_symbolic_sizes.py`",
    ),
    Hazard(
        hazard="collectives compile and do not run",
        guard="collectives are resolved by `vmap`; others raise",
        tests="`test_h15_*`",
    ),
    Hazard(
        hazard="asynchronous calls crash on the queue for small programs",
        guard="calls are synchronous",
        tests="`test_h16_*`",
    ),
    Hazard(
        hazard="`top_k` takes time in proportion to k, index chains compile for ever",
        guard="other forms (`lowering/rules/sort.py`, `lowering/context.py`)",
        tests="`test_h17_*`; `benchmarks/hazards.py`",
    ),
    Hazard(
        hazard=(
            'a branch that passes one reference several times loses it: "ref is null", '
            '"indirect buffer reference slot 0 is out range" in loops and behind them'
        ),
        guard=(
            "in the compiled module those moves become copies whose register is read behind the "
            "branch; of others nothing would free the copy (`lowering/iree/patch_vm_bytecode.py`)"
        ),
        tests=(
            "`test_a_reference_that_a_branch_*`, `tests/lowering/test_patch_vm_bytecode.py`, "
            "`test_carried_arrays_that_change_places_*` in `tests/lax/test_loops.py`"
        ),
    ),
    Hazard(
        hazard=(
            "the argument of a block gets the register of a value that the block's first "
            "operation reads last: where a program returns what one of its branches returns too, "
            'the value is lost ("ref is null"), or another branch overwrites it'
        ),
        guard=(
            "such blocks begin with an operation that reads nothing and leaves no code "
            "(`lowering/iree/block_starts.py`)"
        ),
        tests="`tests/lowering/test_block_starts.py`",
    ),
    Hazard(
        hazard=(
            "a branch moves an offset of 64 bits over the register of a counter that it still has "
            "to move: a loop inside of a loop runs too few rounds, and nothing is said"
        ),
        guard=(
            "blocks with arguments of both widths get all of them in 64 bits, before registers "
            "are chosen (`lowering/iree/widen_block_arguments.py`)"
        ),
        tests="`tests/lowering/test_widen_block_arguments.py`",
    ),
    Hazard(
        hazard=(
            "a loop whose test and step take different numbers of values, as MLIR makes of a step "
            "that hands values on, returns those of the round before, or carries what only the "
            'test reads: IREE counts those of one for both ("region branch point has 2 '
            'operands"), or ends the process'
        ),
        guard=(
            "the shorter side gets unused values, in the module before IREE converts it "
            "(`lowering/iree/balance_loops.py`)"
        ),
        tests="`tests/lowering/test_balance_loops.py`",
    ),
    Hazard(
        hazard=(
            'a loop with many arrays and branches does not compile ("failed to solve for '
            'timepoint coverage"): IREE goes around it 32 times to find which timepoints others '
            "cover, and gives up; so is a loop whose step calls the host several times, where two "
            'of its passes undo each other ("maximum iteration count exceeded in fixed point '
            'pipeline"; in compiles that are checked)'
        ),
        guard=("it is compiled again, with all timepoints (`lowering/iree/keep_timepoints.py`)"),
        tests=("`tests/lowering/test_keep_timepoints.py`, `tests/debug/test_unrolled_loops.py`"),
    ),
    Hazard(
        hazard=(
            "a value of a loop that, once simplified, only its test reads: the program does not "
            "compile, or ends the process, where IREE finds nothing to move out of the loop"
        ),
        guard="the same (`lowering/iree/balance_loops.py`)",
        tests=(
            "`test_values_that_a_step_reads_in_vain`, `test_values_that_only_the_test_*` in "
            "`tests/lax/test_loops.py`"
        ),
    ),
    Hazard(
        hazard="an update at a carried index in a loop copies the array",
        guard=(
            "each element chooses, where the update has one place (`select_at` in "
            "`lowering/rules/_indexing.py`)"
        ),
        tests="`test_an_update_at_a_carried_index_*` in `tests/lax/test_loops.py`",
    ),
    Hazard(
        hazard=(
            "two results of a loop on registers that are constants of one type are stored in one "
            "place, where only parts of them are read"
        ),
        guard="such loops are done in memory (`lowering/loops/registers/dispatch.py`)",
        tests=(
            "`test_results_that_are_constants` in `tests/lowering/loops/test_register_loops.py`"
        ),
    ),
    Hazard(
        hazard=(
            "a vector constant of more than 256 bytes in a loop on registers ends the compiler's "
            "process"
        ),
        guard="such loops are lowered plainly (`lowering/loops/registers/context.py`)",
        tests=(
            "`test_long_constants_*` in `tests/lowering/loops/test_register_loops.py`, "
            "`tests/random/test_keys.py`"
        ),
    ),
    Hazard(
        hazard=(
            "a reduction over windows of which there is one along an axis, with elements behind "
            "it, as in a pooling of 2 x 2 of an array of 3 x 3: the results are other memory, "
            "without a word; so may be what is computed beside windows of single elements that "
            "lie apart"
        ),
        guard=(
            "what no window reads is cut off, single elements are a slice "
            "(`lowering/rules/_window_reduce.py`)"
        ),
        tests=(
            "`test_an_axis_with_one_window_*`, `test_windows_of_single_elements_*` in "
            "`tests/primitives/test_padding.py`"
        ),
    ),
    Hazard(
        hazard=("a module with a bit changed may crash the loader, whose verifier does not see it"),
        guard=(
            "digests and checksums are looked at first (`lowering/cache.py`, "
            "`runtimes/bundle/archive.py`, `xpr/cli/modules.py`)"
        ),
        tests="`test_a_damaged_module_*` in `tests/reliability/test_modules.py`",
    ),
    Hazard(
        hazard="a program on which the compiler crashes ends the process",
        guard="compiles run in a process of their own (`lowering/iree/process/`)",
        tests="`tests/lowering/test_compiler_process.py`",
    ),
    Hazard(
        hazard=(
            "programs that do not compile, or end the compiler's process, for a reason that "
            "nobody knows yet: nearly always what is fused into one dispatch"
        ),
        guard=(
            "a barrier behind each operation, and what fails even so is left to NumPy on the CPU, "
            "each with a warning (`lowering/iree/separate_operations.py`, "
            "`lowering/host_fallback.py`)"
        ),
        tests="`tests/lowering/test_fallbacks.py`",
    ),
    Hazard(
        hazard="without a directory for temporary files the process ends",
        guard="looked for first (`lowering/iree/attempts.py`)",
        tests="`test_a_missing_directory_*`",
    ),
    Hazard(
        hazard="convolutions with leading channels are slow",
        guard="channels last (`lowering/rules/conv.py`)",
        tests="`benchmarks/hazards.py`",
    ),
    Hazard(
        hazard="imported arrays are not held, nor may they be updated",
        guard="`runtimes/host.py`, `lowering/module.py`",
        tests="`tests/runtimes/test_iree_hazards.py`",
    ),
    Hazard(
        hazard=(
            "Mesa's software Vulkan device is now and then lost on a busy machine "
            "(`VK_ERROR_DEVICE_LOST`), and with it all that the process does on Vulkan"
        ),
        guard=(
            "a test to which that happens is run again in a process of its own "
            "(`tests/conftest.py`)"
        ),
        tests="`tests/test_conftest.py`",
    ),
    Hazard(
        hazard=(
            "CUDA: a product of float16 is compiled for sm_75 with an instruction that sm_80 is "
            "the first to have, and ends the compiler's process"
        ),
        guard=(
            "for GPUs before sm_80 operands of products are converted to float32 and written to "
            "memory before (`widened_from_uses` in `lowering/targets/forms.py`)"
        ),
        tests="`test_older_gpus_multiply_float32` in `tests/lowering/test_gpu_code.py`",
    ),
    Hazard(
        hazard=(
            "GPUs: a product of bfloat16 whose result is bfloat16 does not compile "
            '("failed to distribute")'
        ),
        guard=(
            "products are summed in float32, and rounded behind (`lowering/rules/dot_general.py`)"
        ),
        tests="`test_products_of_narrow_floats_*` in `tests/lowering/test_gpu_code.py`",
    ),
)
