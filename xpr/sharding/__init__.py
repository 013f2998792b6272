"""How arrays are spread over devices."""

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
