"""The exceptions of xpr, under JAX's names (`jax.errors`)."""

from xpr.core.errors import CompileError as CompileError
from xpr.core.errors import ConcretizationTypeError as ConcretizationTypeError
from xpr.core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from xpr.core.errors import JAXIndexError as JAXIndexError
from xpr.core.errors import JaxprTypeError as JaxprTypeError
from xpr.core.errors import JaxRuntimeError as JaxRuntimeError
from xpr.core.errors import JAXTypeError as JAXTypeError
from xpr.core.errors import KeyReuseError as KeyReuseError
from xpr.core.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from xpr.core.errors import OutOfMemoryError as OutOfMemoryError
from xpr.core.errors import ShardingTypeError as ShardingTypeError
from xpr.core.errors import TracerArrayConversionError as TracerArrayConversionError
from xpr.core.errors import TracerBoolConversionError as TracerBoolConversionError
from xpr.core.errors import TracerIntegerConversionError as TracerIntegerConversionError
from xpr.core.errors import TypePromotionError as TypePromotionError
from xpr.core.errors import UnexpectedTracerError as UnexpectedTracerError
from xpr.core.errors import XprError as XprError
