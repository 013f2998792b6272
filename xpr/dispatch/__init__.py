"""Concrete arrays: eager evaluation, placement and the call path of compiled programs."""
