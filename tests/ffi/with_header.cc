// Handlers written with XLA's own header.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// Divides rows by their root mean squares.
static ffi::Error Normalize(float eps, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  auto dims = x.dimensions();
  if (dims.size() == 0) return ffi::Error::InvalidArgument("x must be an array");
  int64_t width = dims.back(), count = x.element_count();
  for (int64_t row = 0; row < count; row += width) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x.typed_data()[row + i] * x.typed_data()[row + i];
    float scale = 1 / std::sqrt(sum / width + eps);
    for (int64_t i = 0; i < width; ++i) y->typed_data()[row + i] = x.typed_data()[row + i] * scale;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(normalize, Normalize,
                              ffi::Ffi::Bind().Attr<float>("eps").Arg<ffi::Buffer<ffi::F32>>().Ret<
                                  ffi::Buffer<ffi::F32>>());

// Sums any number of arrays of one type, by a weight for each of them.
static ffi::Error Combine(ffi::Span<const int32_t> weights, ffi::Dictionary options, ffi::RemainingArgs xs,
                          ffi::RemainingRets ys) {
  auto name = options.get<std::string_view>("name");
  if (name.has_error()) return name.error();
  auto offset = options.get<int64_t>("offset");
  if (offset.has_error()) return offset.error();
  if (weights.size() != xs.size()) return ffi::Error(ffi::ErrorCode::kOutOfRange, std::string(*name));
  auto y = ys.get<ffi::Buffer<ffi::S32>>(0);
  if (y.has_error()) return y.error();
  for (size_t i = 0; i < (*y)->element_count(); ++i) (*y)->typed_data()[i] = *offset;
  for (size_t k = 0; k < xs.size(); ++k) {
    auto x = xs.get<ffi::Buffer<ffi::S32>>(k);
    if (x.has_error()) return x.error();
    for (size_t i = 0; i < x->element_count(); ++i)
      (*y)->typed_data()[i] += weights[k] * x->typed_data()[i];
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(combine, Combine,
                              ffi::Ffi::Bind()
                                  .Attr<ffi::Span<const int32_t>>("weights")
                                  .Attr<ffi::Dictionary>("options")
                                  .RemainingArgs()
                                  .RemainingRets());

// A state that lives as long as the program.
struct Counter {
  explicit Counter(int64_t start) : value(start) {}
  static ffi::TypeId id;
  int64_t value;
};
ffi::TypeId Counter::id = {};
static ffi::TypeInfo counter_info = ffi::MakeTypeInfo<Counter>();
extern "C" void *header_counter_type() { return &Counter::id; }
extern "C" void *header_counter_info() { return &counter_info; }

static ffi::ErrorOr<std::unique_ptr<Counter>> Start(int64_t start) {
  return std::make_unique<Counter>(start);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(header_counter_instantiate, Start,
                              ffi::Ffi::BindInstantiate().Attr<int64_t>("start"));

static ffi::Error Next(Counter *counter, ffi::ResultBuffer<ffi::S32> y) {
  y->typed_data()[0] = static_cast<int32_t>(++counter->value);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(header_counter_execute, Next,
                              ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::Buffer<ffi::S32>>());

// A promise that a task of the thread pool keeps.
static ffi::Future Later(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  auto promise = std::make_shared<ffi::Promise>();
  ffi::Future future(*promise);
  const float *from = x.typed_data();
  float *to = y->typed_data();
  size_t count = x.element_count();
  pool.Schedule([promise, from, to, count] {
    for (size_t i = 0; i < count; ++i) to[i] = from[i] + 1;
    promise->SetAvailable();
  });
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    later, Later,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
