"""How arrays are spread over devices."""

from xpr.sharding.single_device import Shard as Shard
from xpr.sharding.single_device import Sharding as Sharding
from xpr.sharding.single_device import SingleDeviceSharding as SingleDeviceSharding
from xpr.sharding.single_device import make_single_device_sharding as make_single_device_sharding
