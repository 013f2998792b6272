"""How arrays are spread over devices."""

from typing import TYPE_CHECKING
from typing import Any as _Any

from xpr.core.aval import ShapedArray as _ShapedArray
from xpr.core.jaxpr_trace import install_typed_results as _install_typed_results
from xpr.core.lazy_names import lazy_names as _lazy_names
from xpr.core.placing import install_given_sharding as _install_given_sharding
from xpr.core.tracebacks import export_functions as _export_functions
from xpr.sharding.base import IndivisibleError as IndivisibleError
from xpr.sharding.base import Shard as Shard
from xpr.sharding.base import Sharding as Sharding
from xpr.sharding.context import get_abstract_mesh as get_abstract_mesh
from xpr.sharding.context import get_mesh as get_mesh
from xpr.sharding.context import set_mesh as set_mesh
from xpr.sharding.context import use_abstract_mesh as use_abstract_mesh
from xpr.sharding.mesh import AbstractDevice as AbstractDevice
from xpr.sharding.mesh import AbstractMesh as AbstractMesh
from xpr.sharding.mesh import AxisType as AxisType
from xpr.sharding.mesh import ManualAxisType as ManualAxisType
from xpr.sharding.mesh import Mesh as Mesh
from xpr.sharding.named import NamedSharding as NamedSharding
from xpr.sharding.single_device import SingleDeviceSharding as SingleDeviceSharding
from xpr.sharding.single_device import make_single_device_sharding as make_single_device_sharding
from xpr.sharding.spec import PartitionSpec as PartitionSpec


def _typed_results(*args: _Any) -> list[_ShapedArray]:
    """Loads the rules, which need every primitive, when the first of them is asked for."""
    from xpr.sharding.types import typed_results  # noqa: PLC0415  not needed without typed arrays

    _install_typed_results(typed_results)
    return typed_results(*args)


def _given_sharding(name: str, sharding: _Any) -> NamedSharding:
    from xpr.sharding.given import resolved  # noqa: PLC0415  few operations are given one

    return resolved(name, sharding)


_install_typed_results(_typed_results)
_install_given_sharding(_given_sharding)

if TYPE_CHECKING:
    from xpr.sharding.explicit import auto_axes as auto_axes
    from xpr.sharding.explicit import explicit_axes as explicit_axes
    from xpr.sharding.explicit import reshard as reshard
else:  # type checkers would take any name for an attribute
    __getattr__, __dir__, __all__ = _lazy_names(
        __name__, {"xpr.sharding.explicit": "auto_axes explicit_axes reshard"}
    )

_export_functions(__name__)
