"""The trials and what is remembered of them, by optuna: in memory, or in an SQLite file that outlives the program."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deepspeech_training.errors import FlagError, UserError
from deepspeech_training.interrupts import interrupts_later
from deepspeech_training.tuning.counting import Errors, Settings

if TYPE_CHECKING:
    import optuna

NAME = 'lm_optimizer'
SECONDS_FOR_LOCK = 60  # that another process may hold on the file
SEED = 4568
FIRST_RANDOM = 20  # trials, before the search learns from them
ERRORS = ('words', 'characters', 'utterances')


@dataclass(frozen=True)
class Space:
    """What is searched: weights from 0 to these; widths and cutoffs below those of `base`, where asked for."""

    alpha_max: float
    beta_max: float
    base: Settings
    beam: bool = False
    cutoffs: bool = False
    labels: int = 0  # of the model's output

    def suggest(self, trial: optuna.Trial) -> Settings:
        """What optuna wants to try next."""
        base = self.base
        top = min(base.cutoff_top_n, self.labels)
        return Settings(
            trial.suggest_float('alpha', 0, self.alpha_max),
            trial.suggest_float('beta', 0, self.beta_max),
            trial.suggest_int('beam_width', 1, base.beam_width, log=True) if self.beam else base.beam_width,
            trial.suggest_float('cutoff_prob', min(0.9, base.cutoff_prob), base.cutoff_prob)
            if self.cutoffs
            else base.cutoff_prob,
            trial.suggest_int('cutoff_top_n', min(2, top), top) if self.cutoffs else base.cutoff_top_n,
        )

    def settings(self, parameters: Mapping[str, Any]) -> Settings:
        """Of a trial that is over."""
        return Settings(**(asdict(self.base) | dict(parameters)))


@dataclass(frozen=True)
class Trial:
    """A trial that was not given up."""

    settings: Settings
    errors: Errors

    def rank(self, by_characters: bool) -> tuple[float, ...]:
        """Less is better: errors as asked for, then the others, then what is faster."""
        errors, settings = self.errors, self.settings
        counts = (errors.characters, errors.words) if by_characters else (errors.words, errors.characters)
        return (*counts, settings.beam_width, settings.cutoff_top_n, settings.cutoff_prob)


class Study:
    """What was tried so far. Several programs may work on the same file."""

    def __init__(self, path: str, space: Space, facts: Mapping[str, Any], by_characters: bool, several: bool) -> None:
        """`path` '': in memory. `facts`: what must be the same when the study goes on, by the names of flags.

        Raises `FlagError` for a file that is no study, or one of something else.
        """
        optuna = _optuna()
        self._space = space
        self._by_characters = by_characters
        self._several = several or bool(path)
        self._begun = False
        storage = None
        try:
            if path:
                from sqlalchemy.pool import NullPool  # it comes with optuna

                os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
                url = f'sqlite:///{os.path.abspath(path)}'
                # No pool: what it keeps open stays open when the study is given up.
                engine = {'connect_args': {'timeout': SECONDS_FOR_LOCK}, 'poolclass': NullPool}
                storage = optuna.storages.RDBStorage(url, engine)
            self._study = optuna.create_study(storage=storage, study_name=NAME, load_if_exists=True)
        except Exception as error:  # of SQLAlchemy, or of optuna for a file of another version
            reason = str(getattr(error, 'orig', error)).splitlines()[0]
            raise FlagError(f'--study={path}: cannot be used: {reason}; give another file') from error
        self._check(path, facts)

    def _check(self, path: str, facts: Mapping[str, Any]) -> None:
        kept = self._study.user_attrs.get('facts')
        if kept is None:
            self._study.set_user_attr('facts', dict(facts))
            return
        for name, value in facts.items():
            if kept.get(name) != value:
                raise FlagError(
                    f'--study={path}: was begun with another {name} ({kept.get(name)}, now {value}); give another '
                    'file, or the same arguments as then'
                )

    @property
    @interrupts_later()
    def done(self) -> int:
        """Trials that are over, given up early or not."""
        optuna = _optuna()
        over = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        return len(self._study.get_trials(deepcopy=False, states=over))

    @interrupts_later()
    def baseline(self, name: str) -> Trial | None:
        """What was kept by `keep_baseline`."""
        kept = self._study.user_attrs.get(name)
        return Trial(Settings(**kept['settings']), Errors(**kept['errors'])) if kept else None

    @interrupts_later()
    def keep_baseline(self, name: str, trial: Trial) -> None:
        self._study.set_user_attr(name, {'settings': asdict(trial.settings), 'errors': asdict(trial.errors)})

    def ask(self) -> tuple[optuna.Trial, Settings]:
        """The next trial."""
        trial = None
        try:
            with interrupts_later():
                trial = self._study.ask()
                if not self._begun:
                    self._begin(trial.number)
                return trial, self._space.suggest(trial)
        except BaseException:
            if trial is not None:
                self.tell(trial, None)
            raise

    def _begin(self, first: int) -> None:
        """Makes the same choices in each search that has the same past; several on one file make different ones.

        `first`: the number of this search's first trial, which no other one has.
        """
        self._study.sampler = _optuna().samplers.TPESampler(
            n_startup_trials=FIRST_RANDOM, multivariate=True, constant_liar=self._several, seed=SEED + first
        )
        self._begun = True

    @interrupts_later()
    def tell(self, trial: optuna.Trial, errors: Errors | None, complete: bool = True) -> None:
        """How it went; `errors` None: it was interrupted. Not `complete`: hopeless after some utterances."""
        states = _optuna().trial.TrialState
        if errors is None:
            self._study.tell(trial, state=states.FAIL)
            return
        for name in ERRORS:
            trial.set_user_attr(name, getattr(errors, name))
        value = errors.characters if self._by_characters else errors.words
        if complete:
            self._study.tell(trial, value)
        else:
            trial.report(value, errors.utterances)
            self._study.tell(trial, state=states.PRUNED)

    @interrupts_later()
    def best(self) -> Trial | None:
        """Of those that are complete."""
        complete = (_optuna().trial.TrialState.COMPLETE,)
        trials = [
            Trial(self._space.settings(trial.params), Errors(*(trial.user_attrs[name] for name in ERRORS)))
            for trial in self._study.get_trials(deepcopy=False, states=complete)
        ]
        return min(trials, key=lambda trial: trial.rank(self._by_characters), default=None)


def _optuna() -> Any:
    """The package, which says only what is wrong. Raises `UserError` where it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise UserError(
            "the search needs the package optuna, which is not installed: pip install '.[tuning]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings('ignore', category=optuna.exceptions.ExperimentalWarning)
    return optuna
