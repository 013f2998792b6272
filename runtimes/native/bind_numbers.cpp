#include <cstring>

#include "numbers.h"
#include "numpy_arrays.h"

namespace xpr {
namespace {

// What Python's integers stand for, without 64-bit types.
constexpr long kSmallest = -0x7FFFFFFF - 1, kLargest = 0x7FFFFFFF;

template <typename T>
bool write_integer(long value, char* place) {
  auto narrow = static_cast<T>(value);
  if (static_cast<long>(narrow) != value || (value < 0) != (narrow < T{})) return false;
  std::memcpy(place, &narrow, sizeof narrow);
  return true;
}

}  // namespace

bool write_number(PyObject* number, int type, char* place) {
  double real = 0;
  long integer = 0;
  bool is_integer = PyLong_CheckExact(number);
  if (is_integer) {
    int overflow = 0;
    integer = PyLong_AsLongAndOverflow(number, &overflow);
    if (overflow != 0 || integer < kSmallest || integer > kLargest) return false;
    real = static_cast<double>(integer);
  } else {
    real = PyFloat_AsDouble(number);
  }
  if (type == NPY_FLOAT) {
    auto single = static_cast<float>(real);
    std::memcpy(place, &single, sizeof single);
    return true;
  }
  if (type == NPY_DOUBLE) {
    std::memcpy(place, &real, sizeof real);
    return true;
  }
  if (!is_integer) return false;
  switch (type) {
    case NPY_BYTE:
      return write_integer<npy_byte>(integer, place);
    case NPY_UBYTE:
      return write_integer<npy_ubyte>(integer, place);
    case NPY_SHORT:
      return write_integer<npy_short>(integer, place);
    case NPY_USHORT:
      return write_integer<npy_ushort>(integer, place);
    case NPY_INT:
      return write_integer<npy_int>(integer, place);
    case NPY_UINT:
      return write_integer<npy_uint>(integer, place);
    case NPY_LONG:
      return write_integer<npy_long>(integer, place);
    case NPY_ULONG:
      return write_integer<npy_ulong>(integer, place);
    case NPY_LONGLONG:
      return write_integer<npy_longlong>(integer, place);
    case NPY_ULONGLONG:
      return write_integer<npy_ulonglong>(integer, place);
    default:
      return false;
  }
}

}  // namespace xpr
