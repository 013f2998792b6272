"""Errors that depend on values, as results of programs: names of JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.checkify.api import all_checks as all_checks
from xpr.experimental.checkify.api import automatic_checks as automatic_checks
from xpr.experimental.checkify.api import check as check
from xpr.experimental.checkify.api import check_error as check_error
from xpr.experimental.checkify.api import checkify as checkify
from xpr.experimental.checkify.api import debug_check as debug_check
from xpr.experimental.checkify.api import div_checks as div_checks
from xpr.experimental.checkify.api import float_checks as float_checks
from xpr.experimental.checkify.api import index_checks as index_checks
from xpr.experimental.checkify.api import nan_checks as nan_checks
from xpr.experimental.checkify.api import user_checks as user_checks
from xpr.experimental.checkify.errors import ErrorCategory as ErrorCategory
from xpr.experimental.checkify.errors import JaxRuntimeError as JaxRuntimeError
from xpr.experimental.checkify.state import Error as Error
from xpr.experimental.checkify.state import init_error as init_error
