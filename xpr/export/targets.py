"""What programs can be exported for: the targets of `xpr.lowering.targets.named`."""

from __future__ import annotations

from xpr.lowering.targets.named import ExportTarget as ExportTarget
from xpr.lowering.targets.named import baseline as baseline
from xpr.lowering.targets.named import export_target as export_target
from xpr.lowering.targets.named import portable_target as portable_target
