"""`checkpoint`, its policies, and what reverse mode keeps: JAX's module of that name."""

from __future__ import annotations

from xpr.transforms.checkpoint import checkpoint as checkpoint
from xpr.transforms.checkpoint import checkpoint_name as checkpoint_name
from xpr.transforms.checkpoint import checkpoint_policies as checkpoint_policies
from xpr.transforms.checkpoint import print_saved_residuals as print_saved_residuals

remat = checkpoint
