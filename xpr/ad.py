"""What `vjp(...)[1].with_refs` is told about cotangents, and what it gives in their place.

>>> import xpr
>>> value, pull = xpr.vjp(lambda x, y: x * y, 2.0, 3.0)
>>> total = xpr.new_ref(1.0)
>>> pull.with_refs(total, DontWant())(1.0)
(GradRef(), DidntWant())
>>> total
Ref(4., dtype=float32, weak_type=True)
"""

from xpr.transforms.pullbacks import DidntWant as DidntWant
from xpr.transforms.pullbacks import DontWant as DontWant
from xpr.transforms.pullbacks import GradRef as GradRef
from xpr.transforms.pullbacks import GradValue as GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
