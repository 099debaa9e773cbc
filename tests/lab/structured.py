"""JSON answers of a simulated model: plans, verdicts, scores, thoughts."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

from tests.lab.tasks import LabTask
from tests.support.openai_server import Answer


def fill_in(
    schema: Mapping[str, Any], task: LabTask, shown: str, rng: random.Random, *, careful: bool
) -> Answer:
    """Return JSON of the schema: right if ``careful``, else with a plausible mistake of judgement."""
    value = _value(schema, schema, task, shown, rng, careful=careful)
    text = json.dumps(value)
    if not careful and rng.random() < 0.3:
        text = rng.choice((f"Here it is:\n```json\n{text}\n```", text[:-1], f"{text}\nI hope this helps."))
    return Answer(text)


_TOKEN = re.compile(r'"[^"]*"|\w[\w. ]*|[{}\[\]:,|?…]')


def schema_of_form(text: str) -> dict[str, Any]:
    """Return the JSON Schema of a form in few words, such as ``{"score": number 0 to 1}``."""
    tokens = _TOKEN.findall(text.partition("\n")[0])[::-1]

    def one() -> dict[str, Any]:
        token = tokens.pop().strip()
        if token == "{":
            fields, required = {}, []
            while tokens[-1] != "}":
                name = json.loads(tokens.pop())
                if tokens.pop() == ":":
                    required.append(name)
                else:
                    tokens.pop()
                fields[name] = alternatives()
                if tokens[-1] == ",":
                    tokens.pop()
            tokens.pop()
            return {"type": "object", "properties": fields, "required": required}
        if token == "[":
            items = alternatives()
            while tokens.pop() != "]":
                pass
            return {"type": "array", "items": items}
        return {"enum": [json.loads(token)]} if token.startswith('"') else {"type": token.split()[0]}

    def alternatives() -> dict[str, Any]:
        first, choices = one(), []
        while tokens and tokens[-1] == "|":
            tokens.pop()
            choices += one().get("enum", [])
        return {"enum": first["enum"] + choices} if "enum" in first else first

    return one()


def _value(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    task: LabTask,
    shown: str,
    rng: random.Random,
    *,
    careful: bool,
    name: str = "",
    number: int = 1,
) -> Any:
    """Return a value of the schema; fields with a known meaning get what a model would mean."""
    answered = task.answer in shown
    done = answered or all(work.evidence in shown for work in task.work)
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _value(target, root, task, shown, rng, careful=careful, name=name, number=number)
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], root, task, shown, rng, careful=careful, name=name)
    if name == "steps":
        return _plan(task, shown)
    satisfied = (done and (answered or "<answer>" not in shown)) if careful else rng.random() < 0.5
    known: dict[str, Any] = {
        "verdict": "SATISFIED" if satisfied else "UNSATISFIED",
        "satisfied": satisfied,
        "supported": satisfied,
        "missing": []
        if satisfied
        else [f"the result of {work.tool}" for work in task.work][:1] or ["more detail"],
        "issues": [] if satisfied else ["a claim is not supported by what was observed"],
        "score": 0.9 if satisfied else 0.4,
        "confidence": 0.9 if satisfied else 0.4,
        "answer": task.answer if done else task.wrong,
        "candidate": number,
    }
    if name in known and _fits(known[name], schema):
        return known[name]
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            return {
                key: _value(part, root, task, shown, rng, careful=careful, name=key, number=number)
                for key, part in schema.get("properties", {}).items()
                if key in known or key in schema.get("required", (key,))
            }
        case "array":
            count = max(int(schema.get("minItems", 0)), 1, _asked_for(name, shown))
            part = schema.get("items", {})
            return [
                _value(part, root, task, shown, rng, careful=careful, name=f"{name}[{index}]", number=index)
                for index in range(1, count + 1)
            ]
        case "number":
            return round(float(schema.get("minimum", 0)) + 0.7 * float(schema.get("maximum", 1)), 2)
        case "integer":
            return int(schema.get("minimum", 1))
        case "boolean":
            return False
        case _:
            return (
                f"{task.work[0].tool} for the task {rng.randrange(1000)}" if task.work else "think it through"
            )


def _asked_for(name: str, shown: str) -> int:
    """Return how many thoughts or judgements are asked for."""
    if name == "thoughts":
        return int(found[1]) if (found := re.search(r"Think of (?:up to )?(\d+)", shown)) else 1
    candidates = shown.rpartition("<candidates")[2] if name == "scores" else ""
    return len(re.findall(r"(?m)^\d+\. ", candidates))


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    kinds = {"array": list, "integer": int, "boolean": bool, "string": str, "number": float}
    kind = kinds.get(str(schema.get("type")))
    return ("enum" in schema and value in schema["enum"]) or (kind is not None and isinstance(value, kind))


def _plan(task: LabTask, shown: str) -> list[dict[str, Any]]:
    """Return the steps of a plan for what is not done yet."""
    steps: list[dict[str, Any]] = []
    stages: dict[int, list[str]] = {}
    for number, work in enumerate((w for w in task.work if w.evidence not in shown), 1):
        step_id = f"s{number}"
        before = [each for stage, ids in stages.items() if stage < work.stage for each in ids]
        stages.setdefault(work.stage, []).append(step_id)
        direct = work.stage == 0
        steps.append(
            {
                "title": f"{work.tool} {number}",
                "instruction": f"Call {work.tool} with {json.dumps(dict(work.arguments))}.",
                "type": "tool_call" if direct else "composite",
                "tool_name": work.tool if direct else None,
                "tool_args": dict(work.arguments) if direct else {},
                "tool_hints": [] if direct else [work.tool],
                "depends_on": before,
            }
        )
    if not steps:
        steps.append(
            {
                "title": "Answer",
                "instruction": "Answer the task from the results.",
                "type": "analysis",
                "tool_name": None,
                "tool_args": {},
                "tool_hints": [],
                "depends_on": [],
            }
        )
    return steps
