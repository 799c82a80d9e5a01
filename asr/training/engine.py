"""Start the engine of `multigpu` that trains on the chosen devices, and make the model that it trains."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.model.devices import Devices, device_errors_as_user_errors, start_devices
from multigpu import start

if TYPE_CHECKING:
    from asr.base.config import Config
    from asr.base.vocabulary import Vocabulary
    from asr.model.acoustic_model import AcousticModel
    from multigpu.engine import Engine

logger = logging.getLogger(__name__)


def start_engine(devices: Devices, cpu_towers: int = 1) -> Engine:
    """Start TensorFlow, and return the engine that trains on the chosen devices.

    Args:
        devices: the devices, and how they share the work.
        cpu_towers: number of towers that share the CPU where there is no GPU, and neither devices nor an
            engine is chosen.

    Raises:
        UserError: a device does not exist, they cannot be divided into that many stages, or the processes of
            a multi-worker run cannot connect.
    """
    chosen = devices.staged()
    if chosen.engine == "multi-worker":
        if chosen.names not in (None, "all") or chosen.simulate:
            raise UserError(
                "`engine=multi-worker`: uses all GPUs that its process sees; choose them with "
                "CUDA_VISIBLE_DEVICES instead of `devices` and `simulate`"
            )
        return _join_workers()
    names = start_devices(chosen, cpu_towers=1 if chosen.engine else cpu_towers)
    from multigpu.engines import make_engine

    with device_errors_as_user_errors("stages" if chosen.stages else "engine"):
        return make_engine(chosen.engine, names, chosen.stages)


def make_model(config: Config, vocabulary: Vocabulary, engine: Engine) -> AcousticModel:
    """Make the model that an engine trains.

    Raises:
        UserError: the engine cannot process its batches in that many parts.
    """
    from asr.model.acoustic_model import make_acoustic_model

    with engine.scope():
        model = make_acoustic_model(config, vocabulary, for_training=True)
    with device_errors_as_user_errors("train.accumulate"):
        engine.check_num_parts(model, config.train.accumulate)
    return model


def _join_workers() -> Engine:
    engines: list[Engine] = []

    def join() -> None:
        from multigpu.cluster import find_cluster
        from multigpu.engines import MultiWorkerEngine

        cluster = find_cluster()
        others = [address for index, address in enumerate(cluster.addresses) if index != cluster.worker]
        if others:
            logger.info("worker %d: waiting for %s", cluster.worker, ", ".join(others))
        # TensorFlow waits forever and would ignore Ctrl-C; there is nothing to save yet
        handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        engines.append(MultiWorkerEngine(cluster))
        signal.signal(signal.SIGINT, handler)

    with device_errors_as_user_errors("engine"):
        start.import_tensorflow(prepare=join)
    from multigpu.unused_cards import warn_of_unused_cards

    warn_of_unused_cards()
    return engines[0]
