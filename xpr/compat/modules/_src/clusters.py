"""`jax._src.clusters`: what launchers of many processes say in the environment."""

from __future__ import annotations

import os


class ClusterEnv:
    """A launcher; subclasses say how it is recognised."""

    name = ""
    opt_in_only_method = False

    @classmethod
    def is_env_present(cls) -> bool:
        """Whether this process was started by it."""
        raise NotImplementedError("subclasses of ClusterEnv must implement is_env_present")


class SlurmCluster(ClusterEnv):
    """Slurm, by the variables that `srun` sets for each process."""

    name = "slurm"

    @classmethod
    def is_env_present(cls) -> bool:
        """Whether `srun` has started this process."""
        return all(v in os.environ for v in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"))

    @classmethod
    def get_process_count(cls) -> int:
        """The number of processes."""
        return int(os.environ["SLURM_NTASKS"])

    @classmethod
    def get_process_id(cls) -> int:
        """The number of this process."""
        return int(os.environ["SLURM_PROCID"])

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """The number of this process on its machine."""
        return int(os.environ["SLURM_LOCALID"])


__all__ = ["ClusterEnv", "SlurmCluster"]
