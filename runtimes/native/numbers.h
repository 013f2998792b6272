// Python's numbers as elements of arrays.
#pragma once

#include "python_objects.h"

namespace xpr {

// Writes a Python int or float as an element of NumPy's type number `type`. False where that is not
// simply a conversion, or where the number may have to be refused.
bool write_number(PyObject* number, int type, char* place);

}  // namespace xpr
