"""How arrays are spread over devices."""

from xpr.sharding.single_device import Shard as Shard
from xpr.sharding.single_device import Sharding as Sharding
from xpr.sharding.single_device import SingleDeviceSharding as SingleDeviceSharding
