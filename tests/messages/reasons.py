"""Why xpr raises other errors than JAX in some calls, says other words, or raises none."""

from __future__ import annotations

import re

NOT_CHECKED_BY_JAX = re.compile(
    "|".join(
        [
            r"^(Attribute|Assertion|Key)Error",
            r"unhashable type|Non-hashable static|must have __hash__|As of JAX v$",
            r"index out of range|indices must be|cannot unpack|Value after",
            r"has no len|object of type$|not iterable|must be an iterable|not subscriptable",
            r"unsupported operand|bad operand|not supported between|weak reference|not callable",
            r"invalid literal|could not convert|must be real number|be interpreted as an integer",
            r"only integer scalar arrays|dimensional arrays can be converted|argument must be a",
            r"safe_zip|safe_map|values to unpack|positional argument|keyword-only|unexpected key",
            r"Error interpreting argument to$|asarray: expected ArrayLike|converted during string",
            r"iteration over a|The truth value of|For this input type lists|bad_cast|ufunc ",
            r"Abstract tracer value|Attempted boolean|conversion method|expected str|descriptor$",
            r"Cannot (determine dtype|call abstract method|interpret)|TypeError: _\w+$",
            r"TypeError: [\w.]+$",  # nothing but the function's name, before its arguments
        ]
    )
)
"""Errors of Python, NumPy or JAX's own machinery that JAX runs into, for it does not check."""

OTHER_CLASS: dict[str, str] = {
    r"incompatible shapes for broadcasting$|transpose permutation": (
        "JAX adds arrays before it looks at their shapes"
    ),
    r"dtype: None|None is not a valid value|cannot be None|dtype must be specified": (
        "None in the place of an array or a dtype is a TypeError everywhere"
    ),
    r"bound axis name|Named reductions": (
        "a string is no axis: names of mapped axes are for the collectives of lax"
    ),
    r"Argument$|Error interpreting argument to|is not a valid JAX": (
        "xpr looks at another argument first"
    ),
    r"`rich` to be installed": "xpr draws shardings without the package rich",
    r"does not support complex|dtype complex|implemented yet|Only float$|float dtype": (
        "what complex numbers are refused by has the function's own name"
    ),
    r"dtype key$|dtypes key$|from key$|convert Array|from bool to key|Value$": (
        "keys are no numbers: TypeError at the first place where one is taken for a number"
    ),
    r"duplicate value|operands could not be|repeated axis|Sum of sizes|padding_value|pad_width"
    r"|k must be a scalar|must be scalars; got stop|axis_shapes|unravel_index: shape|`perm` does"
    r"|only integers, slices|negative dimensions|shape argument|padding argument to": (
        "arrays in the place of static integers are a TypeError before their number is looked at"
    ),
    r"must be a square|must be at least|symmetric_update|M x N|must have shape|square array_like"
    r"|must be at least two-dimensional|expected A to be|input with shape|linear operator must"
    r"|x must be at least|alpha.ndim|need at least one|Need at least one": (
        "a wrong dtype, None, a list or a key is found before a wrong shape"
    ),
    r"requires ndarray or scalar|not well defined|does not accept dtype|must have same dtype": (
        "the shapes or the number of the arguments are looked at first"
    ),
    r"sharding$|`out_sharding`|only accepts `None`|data type$|device": (
        "a device is named by its backend: another name is an unknown backend"
    ),
    r"convolve2d$|correlate2d$|Einstein sum|string values for|bin for each|cannot modify arrays"
    r"|dimension_numbers must be|Precision argument|padding type|got no values|no leading axis"
    r"|must be scalar|order must be|Incompatible (shapes|types)|with remapped shapes|unexpected inp"
    r"|fewer dimensions|size must be|convolution requires|spacing arguments|Cannot concatenate"
    r"|Shapes must be|axis specification|to map its argument|Only the type": (
        "two things are wrong in this call, and xpr finds the other one first"
    ),
}
"""Where the class of the exception is another one: JAX's words and the reason."""

NO_ERROR: dict[str, str] = {
    r"Abstract tracer value|Attempted boolean": (
        "arrays that are known stay known when a program is traced, so sizes can depend on them"
    ),
    r"dtype must|cannot be None|dtype of|inexact|dtype bool|x.dtype$|data type|not valid|types": (
        "booleans and integers are taken where the result has a meaning, as NumPy does"
    ),
    r"^AttributeError|unhashable|As of JAX v|tuple index|len$|values to unpack|output types": (
        "JAX does not check: it runs into an error of Python's; xpr has a result"
    ),
    r"AssertionError: key|not convert Array|dtype key|None is not a valid|TypeError: Value$": (
        "comparisons say no to what is no array, and data of keys moves as it is"
    ),
    r"NotImplementedError: method|must be$|axis -$|nonnegative|TypeError: $|checkpoint$|unroll": (
        "xpr takes more: wide matrices, stacks, scalars, negative sizes for none, decorators"
    ),
    r"Cannot interpret|is_node$": "real parts of keys need no arithmetic, and None is no type",
}
"""Where xpr raises nothing: JAX's words and the reason."""

REFUSED: dict[str, str] = {
    r"^(custom_|lax\.composite|checkpoint|make_jaxpr|pure_callback|experimental\.io_callback)": (
        "what is no function is refused when it is given, not when it is called"
    ),
    r"^scipy\.(stats|special)": "a whole family refuses complex numbers and lists",
    r"^random\.": "the shape, the seed and the mode are looked at when the function is traced",
    r"^lax\.(p|all_to_all)": "an axis has to be known even where there is nothing to send",
    r"^numpy\.(bartlett|blackman|hamming|hanning|kaiser|fft)|^scipy\.linalg|axis=1.5|integer_pow": (
        "a size, an axis or a power is an integer, not a float"
    ),
    r"numpy\.(polyadd|polysub|polydiv|roots)": "polynomials are vectors of coefficients",
    r"numpy\.(arg|nanarg|histogram)|lax\.cumlogsumexp": (
        "complex numbers have no order, and integers no infinity: JAX fails when it compiles"
    ),
    r"numpy\.(ndim|shape|size) ": "a string has no shape",
    r"numpy\.unravel_index|numpy\.pad": "indices and widths are integers",
    r" key$": "a key is no number",
    r"^debug\.|^make_array|^new_ref|^ref\.|^ShapeDtypeStruct|dtypes\.canonicalize|^lax\.r": (
        "what cannot be used later is refused at once"
    ),
    r"^Array\.|fft\.ihfft|custom_vmap\.def_vmap": "what is no array and no axis is refused",
}
"""Where only xpr raises something: names and calls of functions, and the reason."""

OTHER_NAME = (
    "xpr names the function that was called, or the one that an alias stands for; JAX at times one "
    "inside of it, or one that it was made from"
)
"""Where the words are the same, but for the name of a function in front."""

OTHER_WORDS = "xpr says the values found first, or finds another of several mistakes"
"""Where the class is the same and the words are not."""

MISSING: dict[str, str] = {}
"""What is no attribute here."""
