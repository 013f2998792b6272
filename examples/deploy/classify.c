// Calls the module that `xpr compile examples/deploy/model.py:predict --args 'f32[8,64]'` writes.
#include <stdio.h>

#include "iree/runtime/api.h"

enum { BATCH = 8, PIXELS = 64 };

// The first result of `main` for one batch of rows.
static iree_status_t classify(iree_runtime_session_t* session, const float* rows, int32_t* classes) {
  iree_hal_device_t* device = iree_runtime_session_device(session);
  const iree_hal_dim_t shape[] = {BATCH, PIXELS};
  const iree_hal_buffer_params_t where = {
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
      .access = IREE_HAL_MEMORY_ACCESS_ALL,
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
  };
  iree_hal_buffer_view_t* input = NULL;
  iree_hal_buffer_view_t* output = NULL;
  iree_runtime_call_t call;
  // A module is called by the name that the function had in Python.
  IREE_RETURN_IF_ERROR(iree_runtime_call_initialize_by_name(
      session, iree_make_cstring_view("predict.main"), &call));
  iree_status_t status = iree_hal_buffer_view_allocate_buffer_copy(
      device, iree_runtime_session_device_allocator(session), 2, shape,
      IREE_HAL_ELEMENT_TYPE_FLOAT_32, IREE_HAL_ENCODING_TYPE_DENSE_ROW_MAJOR, where,
      iree_make_const_byte_span(rows, BATCH * PIXELS * sizeof(*rows)), &input);
  if (iree_status_is_ok(status)) {
    status = iree_runtime_call_inputs_push_back_buffer_view(&call, input);
  }
  if (iree_status_is_ok(status)) status = iree_runtime_call_invoke(&call, 0);
  if (iree_status_is_ok(status)) {
    status = iree_runtime_call_outputs_pop_front_buffer_view(&call, &output);
  }
  if (iree_status_is_ok(status)) {
    status = iree_hal_device_transfer_d2h(
        device, iree_hal_buffer_view_buffer(output), 0, classes, BATCH * sizeof(*classes),
        IREE_HAL_TRANSFER_BUFFER_FLAG_DEFAULT, iree_infinite_timeout());
  }
  iree_hal_buffer_view_release(output);
  iree_hal_buffer_view_release(input);
  iree_runtime_call_deinitialize(&call);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  iree_runtime_instance_options_t options;
  iree_runtime_instance_options_initialize(&options);
  iree_runtime_instance_options_use_all_available_drivers(&options);
  iree_runtime_instance_t* instance = NULL;
  iree_hal_device_t* device = NULL;
  iree_runtime_session_t* session = NULL;
  // Older headers call the allocator iree_allocator_system().
  iree_status_t status =
      iree_runtime_instance_create(&options, iree_allocator_default(), &instance);
  if (iree_status_is_ok(status)) {
    status = iree_runtime_instance_try_create_default_device(
        instance, iree_make_cstring_view("local-task"), &device);
  }
  if (iree_status_is_ok(status)) {
    iree_runtime_session_options_t session_options;
    iree_runtime_session_options_initialize(&session_options);
    status = iree_runtime_session_create_with_device(
        instance, &session_options, device, iree_runtime_instance_host_allocator(instance),
        &session);
  }
  if (iree_status_is_ok(status)) {
    status = iree_runtime_session_append_bytecode_module_from_file(session, argv[1]);
  }
  static float rows[BATCH * PIXELS];
  int32_t classes[BATCH];
  if (iree_status_is_ok(status)) status = classify(session, rows, classes);
  if (iree_status_is_ok(status)) {
    for (int i = 0; i < BATCH; ++i) printf("%d\n", (int)classes[i]);
  }
  iree_runtime_session_release(session);
  iree_hal_device_release(device);
  iree_runtime_instance_release(instance);
  const int failed = !iree_status_is_ok(status);
  if (failed) {
    iree_status_fprint(stderr, status);
    iree_status_ignore(status);
  }
  return failed;
}
