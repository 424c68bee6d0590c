"""All that training must remember to go on as if it had never stopped: numbers as JSON, vectors as safetensors."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from dikkat.config import first_complaint
from dikkat.run_directory import Checkpoint
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.task import Validation
from dikkat_runtime.errors import DataError

# Numbers of a state.json are checked before a training goes on from them: a stranger may have written them.

_MAX_VALUE = 1 << 53
Count = Annotated[int, Field(strict=True, ge=0, le=_MAX_VALUE)]
Number = Annotated[float, Field(strict=True, ge=-_MAX_VALUE, le=_MAX_VALUE, allow_inf_nan=False)]
Amount = Annotated[Number, Field(ge=0)]
Flag = Annotated[bool, Field(strict=True)]


@dataclass
class TrainingState:
    """The state of a run. Generators have none: order and dropout are functions of seed and position."""

    updates: Count = 0
    """Optimizer steps done."""
    position: Count = 0
    """Micro-batches taken from the plan."""
    count: Count = 0
    """Predictions trained on: target tokens, or labels."""
    seconds: Amount = 0.0
    """Time used, earlier sessions included; that in which the process did not run is left out."""
    loss_sum: Amount = 0.0
    """Negative log-likelihood since the last validation, in nats."""
    loss_count: Count = 0
    """Predictions in that sum."""
    validations: Count = 0
    """Validations done."""
    best_score: Number | None = None
    """Best validation score so far, if there was a validation; its weights are in model.safetensors."""
    best_loss: Amount = 0.0
    """Validation loss of those weights, which decides between equal scores."""
    best_update: Count = 0
    """Updates done at that validation."""
    best_sha256: str = ""
    """Checksum of model.safetensors; empty before the first validation."""
    stale: Count = 0
    """Validations since the best one."""
    skipped: Count = 0
    """Updates in a row whose gradient was not finite."""
    rate_scale: Amount = 1.0
    """Factor of the learning rate; halved when a divergence sent the run back to its last checkpoint."""
    validation_due: Flag = False
    """Whether the run was stopped in the midst of a validation, which comes before the next update."""
    validation_share: Amount = 1.0
    """Share of the held-out data that is validated on; less than all where a time limit leaves no time for more."""
    overhead_seconds: Amount = 0.0
    """Time that validations and saves took, in a run with a time limit; it decides when the next one comes."""
    next_validation: Amount = 0.0
    """Progress at which the next validation comes in a run with a time limit."""
    conditions: dict[str, str] = field(default_factory=dict)
    """What the bits of the result depend on besides settings and data, as it was when the run began."""

    @property
    def train_loss(self) -> float:
        """Mean negative log-likelihood a prediction since the last validation, in nats."""
        return self.loss_sum / max(1, self.loss_count)

    @property
    def is_validated(self) -> bool:
        """True where the last validation scored the weights as they are now."""
        return not (self.loss_count or self.validation_due or self.best_score is None)

    def add_update(self, likelihood: float, count: int, *, is_finite: bool) -> None:
        """Count an update over so many predictions; one that is not finite was skipped."""
        self.count += count
        if is_finite:
            self.skipped = 0
            self.loss_sum += likelihood
            self.loss_count += count
        else:
            self.skipped += 1

    def add_validation(self, validation: Validation) -> bool:
        """Count a finished validation; returns whether it is the best so far, of equal scores by its loss.

        Patience does not wear out while a score says nothing yet.
        """
        score, loss = validation.score, validation.loss
        is_best = self.best_score is None or (score, -loss) > (self.best_score, -self.best_loss)
        if is_best:
            self.best_score, self.best_loss, self.best_update = score, loss, self.updates
        self.stale = 0 if is_best or not validation.is_meaningful else self.stale + 1
        self.validations += 1
        self.validation_due = False
        self.loss_sum, self.loss_count = 0.0, 0
        return is_best


def load_state(checkpoint: Checkpoint, parameters: FlatParameters, optimizer: Optimizer) -> TrainingState:
    """Load parameters, optimizer and state as a `Saver` wrote them.

    Raises `DataError` if the checkpoint is of another model, or holds a number that is not finite.
    """
    try:
        parameters.fill(parameters.master, checkpoint.tensors("model"))
        parameters.refresh()
        vectors = checkpoint.tensors("optimizer")
        optimizer.load_state(vectors)
        known: dict[str, Any] = checkpoint.state
        TypeAdapter(TrainingState).validate_python(known)
        state = TrainingState(**known)
    except ValidationError as error:
        fact = first_complaint(error)
        raise DataError("{path}: belongs to a run with other settings ({error})", checkpoint.path, fact) from None
    except (KeyError, TypeError, RuntimeError, OverflowError) as error:
        raise DataError("{path}: belongs to a run with other settings ({error})", checkpoint.path, error) from None
    for name, vector in {"weights": parameters.master, **vectors}.items():
        if not vector.isfinite().all():
            raise DataError(
                "{path}: its {name} are not all finite; start again with another --out", checkpoint.path, name
            )
    return state
