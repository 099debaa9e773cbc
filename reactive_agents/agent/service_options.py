"""The builder's methods that switch services on."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, cast

from attrs import evolve
from typing_extensions import TypeVar

from reactive_agents.agent import validation
from reactive_agents.agent.description import AgentDescription
from reactive_agents.core import config
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.core.run_context import RunContext, can_take
from reactive_agents.core.tools import ASK_USER

if TYPE_CHECKING:
    from typing import TextIO

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from reactive_agents.adapters.encryption import RecordKey
    from reactive_agents.adapters.governance.guardrails.checks import Check, Findings
    from reactive_agents.adapters.governance.requests import ApprovalHandler, QuestionHandler
    from reactive_agents.adapters.telemetry.console import RunConsole
    from reactive_agents.core.memory import AnonymousMemory, MemoryExtraction, MemoryScope, MemoryTier
    from reactive_agents.core.settings import UntrustedArguments
    from reactive_agents.ports import Embedder, EventHandler

_Deps = TypeVar("_Deps", default=None)


class ServiceOptions(AgentDescription, Generic[_Deps]):
    """Methods that each enable one service; without a service its phases are skipped."""

    __slots__ = ()  # its fields, and its constructor, are those of the description

    def with_memory(
        self,
        path: str | Path = config.IN_PROCESS,
        *,
        tier: MemoryTier = "1",
        token_budget: int = 1000,
        embedding_model: str | None = None,
        embedder: Embedder | None = None,
        extraction: MemoryExtraction = "rules",
        on_failure: config.OnFailure = "report",
        scope: MemoryScope = "user",
        anonymous: AnonymousMemory = "agent",
    ) -> Self:
        """Remember facts, episodes, procedures and critiques from run to run.

        Recalled memories are shown to the model as data with their origin; those from tools are marked as
        untrusted. The memories of a run with a user or session never reach the prompt of another user or
        session. By default the memories of a run without both belong to the agent, and may reach every run.

        Args:
            path: an SQLite file, created if it does not exist, or the address of a Postgres database; by
                default the memory ends with the agent.
            tier: ``1`` for keyword search; ``2`` for hybrid search, which needs an embedding model or an
                embedder.
            token_budget: maximum tokens of recalled memories in a prompt, 1 or more.
            embedding_model: the name of an embedding model, such as ``openai/text-embedding-3-small``.
            embedder: a custom embedder, in place of a model by name.
            extraction: whether ``rules`` choose the facts of a run, or one call of the run's ``model``.
            on_failure: memory that cannot be read or written is an event and a warning in the log
                (``report``), or also ends the run (``stop``).
            scope: ``user`` keeps the memories of a run to its user, or to its session when it has no user;
                ``agent`` shares them with everybody that the agent works for.
            anonymous: with ``agent`` a run without user and session stores and recalls memories of the agent
                itself; with ``nothing`` it neither stores nor recalls any.
        """
        described = self._switched_on(
            config.MemoryConfig,
            "memory",
            path=path,
            tier=tier,
            token_budget=token_budget,
            embedding_model=embedding_model,
            extraction=extraction,
            scope=scope,
            anonymous=anonymous,
        )._with_problem(validation.wrong_embedder("memory.embedder", embedder))
        return described._with_components(embedder=embedder)._with_required("memory", on_failure)

    def with_sessions(self, path: str | Path) -> Self:
        """Keep the conversations of ``run(session=…)`` in a file.

        Other processes can continue them there. Without this option they end with the agent.

        Args:
            path: an SQLite file, created if it does not exist, or the address of a Postgres database.
        """
        return self._switched_on(config.SessionsConfig, "sessions", path=path)

    def with_session_state(self, values: Mapping[str, Any]) -> Self:
        """Set the state with which new sessions, and runs without one, begin.

        Tools read and change it as ``ctx.state``. Sessions that have had a run keep the state that they have.

        Args:
            values: JSON data by keys, of at most 100,000 characters.
        """
        return self._with_read("session_state", validation.state_data("session_state", values))

    def with_durability(
        self,
        path: str | Path,
        *,
        in_doubt: config.InDoubt = "tell",
        recover: bool = True,
        key: RecordKey | None = None,
        engine: config.QueueEngineName = "record",
    ) -> Self:
        """Record runs, so that they can be continued after their process was killed.

        ``run(task, run_id="order-4711")`` does its work once, however often and wherever it is called: an
        interrupted run is continued, and a run that has ended returns its recorded result.

        Args:
            path: an SQLite file, created if it does not exist, or the URL of a Postgres database. It holds
                what the model and the tools returned.
            in_doubt: how a tool call is settled that may have taken effect before a crash: ``tell`` the model
                about it, ``ask`` the approver, or ``fail``, which stops the run until the call is settled.
            recover: whether ``async with agent`` continues the agent's interrupted runs.
            key: encrypts the record: 32 bytes, these as URL-safe base64, or a function that returns either;
                by default the key in ``REACTIVE_AGENTS_RUNS_KEY``. Of several keys, the first encrypts, and
                each decrypts. Needs the extra ``durable``.
            engine: hands queued runs to workers: the ``record`` itself, or ``dbos``, which needs the extra
                ``durable``.
        """
        described = self._switched_on(
            config.DurabilityConfig,
            "durability",
            path=path,
            in_doubt=in_doubt,
            recover=recover,
            engine=engine,
        )
        return described._with_components(record_key=key)

    def with_run_log(
        self, path: str | Path, *, keep_days: float | None = 30.0, keep_runs: int | None = None
    ) -> Self:
        """Keep the events of runs in a file, which ``reactive-agents runs`` reads.

        They are written beside the run, in batches: of a run that is killed, only the last moment is missing.
        Secrets are redacted; tasks and answers are included.

        Args:
            path: an SQLite file, created if it does not exist, or the address of a Postgres database; it may
                be that of another store, such as ``with_durability``.
            keep_days: days after which a run is deleted; 0 or ``None`` for never.
            keep_runs: how many runs are kept, the latest ones, 1 or more; ``None`` for all.
        """
        return self._switched_on(
            config.RunLogConfig, "run_log", path=path, keep_days=keep_days, keep_runs=keep_runs
        )

    def with_telemetry(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> Self:
        """Trace runs, and measure their tokens and durations, with OpenTelemetry.

        The spans of a run are children of the caller's span, and whatever a tool begins is a child of the
        tool's span. Without an SDK in the program they are dropped.

        Args:
            tracer_provider: makes the spans; by default the provider that the program has set.
            meter_provider: makes the metrics; by default the provider that the program has set.
            content: whether spans contain tasks, answers, arguments and results, redacted like all events.
        """
        given = {
            "tracer_provider": (tracer_provider, "get_tracer"),
            "meter_provider": (meter_provider, "get_meter"),
        }
        for name, (provider, method) in given.items():
            if provider is not None and not callable(getattr(provider, method, None)):
                kind = type(provider).__name__
                return self._with_problem(
                    InvalidConfig(f"telemetry.{name}", kind, f"a provider with {method}")
                )
        wrong = validation.wrong_value("telemetry.content", content, bool, "True or False")
        if wrong is not None:
            return self._with_problem(wrong)
        from reactive_agents.adapters.telemetry.open_telemetry import OpenTelemetryHandler

        return self._with_subscriber(OpenTelemetryHandler(tracer_provider, meter_provider, content=content))

    def with_logging(self) -> Self:
        """Log runs with the standard library, to the logger ``reactive_agents.runs``.

        A run is one line at INFO; its decisions are at DEBUG, failed calls at WARNING, failed runs at ERROR.
        No line contains the words of a user or a model, except in error messages, which are redacted.
        """
        from reactive_agents.adapters.telemetry.event_bus import log_run

        return self._with_subscriber(log_run)

    def _with_subscriber(self, handler: EventHandler) -> Self:
        return self._with_components(subscribers=(*self.components.subscribers, handler))

    def with_guardrails(
        self,
        *checks: str
        | config.CheckConfig
        | Check
        | Callable[[RunContext[_Deps], str], Findings | Awaitable[Findings]],
        judge_model: str | None = None,
        classifier: Callable[[str], float] | None = None,
        untrusted_arguments: UntrustedArguments | None = None,
        written_calls: UntrustedArguments = "allow",
    ) -> Self:
        """Check tasks, tool results and answers: block, redact, or warn.

        Args:
            checks: names such as ``toxicity``, checks with options, and functions that return findings for a
                text. They take the text, or the ``RunContext`` and the text, and check every text; a
                ``FunctionCheck`` checks those of some stages. By default prompt injection is blocked and
                personal data is redacted. These checks are rules, which rewording often passes.
            judge_model: a model that judges each text as well; its calls count for the run.
            classifier: a function from a task or tool result to the probability, 0 to 1, that it is an
                attack. It is called in a worker thread; texts with 0.8 or more, and texts that it fails on,
                are blocked. For other options pass a ``ClassifierCheck`` as a check.
            untrusted_arguments: how a call of high risk is treated that has an argument copied from a tool
                result or a recalled note: ``ask`` an approver, ``block`` the call, or ``allow`` it. By
                default an approver is asked if there is one.
            written_calls: how a call is treated that the model writes as text instead of making it: ``allow``
                runs it if the model was not shown it, ``ask`` asks an approver after the first tool result or
                recalled note, ``block`` asks the model for a real call.
        """
        from reactive_agents.adapters.governance.guardrails.checks import ClassifierCheck, FunctionCheck

        functions: tuple[Check, ...] = ()
        given: list[Any] = [each for each in checks if callable(each)]
        for each in given:
            own = each.function if isinstance(each, FunctionCheck) else each
            if not (can_take(own, 1) or can_take(own, 2)):
                expected = "a function of a text, or of a RunContext and a text"
                return self._with_problem(InvalidConfig("guardrails", abbreviated(own), expected))
            functions += (each if can_take(each, 1) else FunctionCheck(each),)
        if classifier is not None:
            if not callable(classifier):
                expected = "a function from a text to a probability"
                return self._with_problem(InvalidConfig("guardrails.classifier", repr(classifier), expected))
            functions = (*functions, ClassifierCheck(classifier))
        described = [
            {"name": each} if isinstance(each, str) else each for each in checks if not callable(each)
        ]
        options: dict[str, object] = {"checks": described} if checks else {}
        switched_on = self._switched_on(
            config.GuardrailsConfig, "guardrails", judge_model=judge_model, **options
        )
        switched_on = switched_on._evolve(
            untrusted_arguments=untrusted_arguments, written_calls=written_calls
        )
        return switched_on._with_components(checks=functions)

    def with_redaction(self, *patterns: str) -> Self:
        """Redact patterns in events, logs, memory and audit log, besides known secrets.

        Args:
            patterns: regular expressions; the secret is the group named ``secret``, or else the whole match.
                A slow expression slows down every event. A later call adds to an earlier one.
        """
        known = self.config.redaction.patterns
        return self._switched_on(config.RedactionConfig, "redaction", patterns=[*known, *patterns])

    def with_verification(
        self,
        *,
        threshold: float = 0.7,
        action: config.VerificationAction = "annotate",
        judge_model: str | None = None,
        self_consistency: int = 0,
        deliverables: Sequence[str] = (),
    ) -> Self:
        """Verify answers by the evidence of the run; sets the result's confidence.

        Args:
            threshold: 0 to 1, the lowest confidence of an answer that counts as verified.
            action: with a lower confidence, ``annotate`` notes it in the result's reason, ``retry`` lets the
                agent try once more with the findings, ``fail`` ends the run with ``VerificationFailed``.
            judge_model: a model that is asked whether the answer is supported; its calls count for the run.
            self_consistency: how many further answers of the run's model are compared, 0 to 20; their calls
                count for the run.
            deliverables: paths of files that a run has to leave inside the workspace. A task may list more in
                its details under ``deliverables``.
        """
        return self._switched_on(
            config.VerificationConfig,
            "verification",
            threshold=threshold,
            action=action,
            judge_model=judge_model,
            self_consistency=self_consistency,
            deliverables=deliverables,
        )

    def with_audit(
        self,
        path: str | Path = config.IN_PROCESS,
        *,
        signing_key: bytes | None = None,
        on_failure: config.OnFailure = "report",
    ) -> Self:
        """Write an append-only audit log, chained by hashes.

        Each run has an entry, and so has each approval, each denial, and each text that a guardrail blocked.
        A call whose approval cannot be written does not run.

        Args:
            path: an SQLite file, created if it does not exist, or the address of a Postgres database; by
                default the log ends with the agent.
            signing_key: private Ed25519 key of 32 bytes; needs the extra ``sign``.
            on_failure: with ``report`` a run that cannot be recorded is an event and a warning in the log.
                With ``stop`` each run has an entry ``start`` too; it does not begin when that cannot be
                written, and fails when its last entry cannot be written.
        """
        switched_on = self._switched_on(config.AuditConfig, "audit", path=path)
        return switched_on._with_components(signing_key=signing_key)._with_required("audit", on_failure)

    def with_cost(
        self,
        path: str | Path = config.IN_PROCESS,
        *,
        tiers: Sequence[config.ModelTier] = (),
        run_usd: float | None = None,
        daily_usd: float | None = None,
        monthly_usd: float | None = None,
        user_daily_usd: float | None = None,
        user_monthly_usd: float | None = None,
        warn_at: Sequence[float] = (0.5, 0.8),
        on_failure: config.OnFailure = "report",
    ) -> Self:
        """Track usage and cost of runs, with budgets and routing to the cheapest model.

        A call that could exceed a budget is not made, and the run ends as ``partial``. The same holds for a
        model whose price is unknown, and while the budget cannot be read.

        Args:
            path: an SQLite file, created if it does not exist, or the address of a Postgres database; all
                agents that share it share its budgets. By default the account ends with the agent.
            tiers: models with the complexity that each is trusted with, the cheapest first.
            run_usd: US dollars that a run may spend, 0 or more; ``None`` for no limit.
            daily_usd: US dollars for a day in UTC; ``None`` for no limit.
            monthly_usd: US dollars for a month in UTC; ``None`` for no limit.
            user_daily_usd, user_monthly_usd: those for the runs of each user, by their ``user``.
            warn_at: shares of a limit at which ``BudgetWarning`` is published, above 0 and up to 1.
            on_failure: usage that cannot be recorded is an event and a warning in the log (``report``), or
                also fails the run (``stop``).
        """
        return self._switched_on(
            config.CostConfig,
            "cost",
            path=path,
            tiers=tiers,
            run_usd=run_usd,
            daily_usd=daily_usd,
            monthly_usd=monthly_usd,
            user_daily_usd=user_daily_usd,
            user_monthly_usd=user_monthly_usd,
            warn_at=warn_at,
        )._with_required("cost", on_failure)

    def with_console(self, output: TextIO | None = None) -> Self:
        """Show each run as it happens: steps, tools, spending, and sub-agents.

        On a terminal it is a live view, elsewhere a line for each step. On a terminal it also asks for
        approvals and for answers to the model's questions, unless ``with_approval`` is used.

        Args:
            output: the stream that is written to; by default standard error.
        """
        expected = "a text file"
        wrong = (
            None
            if output is None
            else validation.wrong_object("console.output", output, expected, "write", "flush")
        )

        def make() -> RunConsole:
            from reactive_agents.adapters.telemetry.console import RunConsole

            return RunConsole(output)

        return self._with_problem(wrong)._with_components(console=make)

    def with_approval(self, handler: ApprovalHandler | None = None, *, timeout_s: float = 300.0) -> Self:
        """Ask for approval of calls that need it; without this option they are refused.

        Args:
            handler: decides on a request with a ``bool`` or an ``ApprovalDecision``; sync or async. Without
                a handler, each request waits for ``agent.approve`` or ``agent.deny``; with one, these may
                still decide first.
            timeout_s: seconds that a request waits, above 0; then it is denied.
        """
        wrong = validation.wrong_handler("approval.handler", handler, "an ApprovalRequest")
        wrong = wrong or validation.wrong_value(
            "approval.timeout_s", timeout_s, float, "above 0 seconds", validation.is_above_zero
        )
        desk = evolve(
            self.components.desk, approves=True, approval_handler=handler, approval_timeout_s=timeout_s
        )
        return self._with_problem(wrong)._with_components(desk=desk)

    def with_ask_user(self, handler: QuestionHandler | None = None) -> Self:
        """Let the model ask the user in the middle of a run, with the tool ``ask-user``.

        A question waits as long as ``with_timeout(answer=…)`` says, 300 seconds by default; then the model is
        told that no one answered.

        Args:
            handler: answers a question with a text, or with ``None`` if no one does; sync or async. Without
                a handler, each question waits for ``agent.answer``; with one, that may still answer first.
        """
        wrong = validation.wrong_handler("ask_user.handler", handler, "a QuestionRequest")
        described = self._with_problem(wrong)
        desk = evolve(self.components.desk, question_handler=handler)
        return described._with_components(desk=desk, tools=(*self.components.tools, ASK_USER))

    def _with_required(self, service: config.RecordService, on_failure: config.OnFailure) -> Self:
        """Return the description with what a failure of the service means for a run."""
        if on_failure not in ("report", "stop"):
            wrong = InvalidConfig(f"{service}.on_failure", repr(on_failure), "'report' or 'stop'")
            return self._with_problem(wrong)
        others = tuple(each for each in self.config.required_records if each != service)
        return self._with_config(required_records=(*others, service) if on_failure == "stop" else others)

    def _switched_on(self, kind: type[object], service: str, **options: object) -> Self:
        """Return the description with the service configured, or with a problem."""
        if "path" in options:
            path = options["path"]
            wrong = validation.wrong_place(f"{service}.path", path)
            if wrong is not None:
                return self._with_problem(wrong)
            options["path"] = os.fspath(cast("str | Path", path))

        def placed(problem: DecodeError) -> DecodeError:
            places = (evolve(each, path=f"$.{service}{each.path[1:]}") for each in problem.problems)
            return DecodeError(problem.type_name, tuple(places))

        return self._with_read(service, validation.read_options(kind, options).alt(placed))
