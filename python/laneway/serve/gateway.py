"""The models of a gateway, by name and version."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway.serve.link import Link
from laneway.serve.making import Making
from laneway.serve.model import Model
from laneway.serve.problem import Problem
from laneway.serve.repository import Repository
from laneway.serve.scratch import Scratch


class Gateway:
    """Belongs to the event loop."""

    def __init__(self, repository: Repository, scratch: Scratch, address: str | None) -> None:
        self.repository = repository
        self.link = Link(address, self._lose_jobs)
        self._making = Making(scratch)
        self._models: dict[tuple[str, str], Model] = {}
        self._newest: dict[str, str] = {}  # the version that requests without one go to

    def model(self, name: str, version: str | None = None) -> Model:
        """The model as it was when it was first asked for; one that is not loaded takes what its
        folder has become. Raises Problem."""
        known = self._models.get((name, version or self._newest.get(name, "")))
        if known is not None and known.state != "UNAVAILABLE":
            return known
        facts = self.repository.facts(name, version)
        if version is None:
            self._newest[name] = facts.version
        key = (name, facts.version)
        known = self._models.get(key)
        if known is None or known.facts.stamp != facts.stamp:
            if known is not None:
                self.link.keep(asyncio.ensure_future(known.unload()))
            self._models[key] = known = Model(facts, self._making, self.link)
        return known

    def loaded(self) -> list[Model]:
        return list(self._models.values())

    async def load(self, name: str) -> None:
        """Loads the newest version as it is now. Raises Problem."""
        facts = self.repository.facts(name)
        known = self._models.get((name, facts.version))
        if known is not None and known.facts.stamp != facts.stamp:
            await known.unload()
        self._newest[name] = facts.version
        if known is not None and known.facts.stamp == facts.stamp:
            await known.load()
            return
        made = self._models[(name, facts.version)] = Model(facts, self._making, self.link)
        await made.load()

    async def unload(self, name: str) -> None:
        """All versions. Raises Problem for a model that there is not."""
        own = [key for key in self._models if key[0] == name]
        if not own and not self.repository.has(name):
            raise Problem(404, f"there is no model '{name[:200]}' in {self.repository.folder}")
        self._newest.pop(name, None)
        for key in own:
            await self._models[key].unload()
            if not self.repository.has(name):
                del self._models[key]

    def index(self, only_ready: bool) -> list[dict[str, str]]:
        """Every version of every model, its state, and why it is not ready."""
        rows = []
        for name in self.repository.names():
            for version in self.repository.versions(name):
                rows.append(self._row(name, version))
        there = {(row["name"], row["version"]) for row in rows}
        for name, version in self._models.keys() - there:
            model = self._models[(name, version)]
            if model.state != "UNAVAILABLE":
                why = "its folder is gone; it answers until it is unloaded"
                rows.append({"name": name, "version": version, "state": model.state, "reason": why})
        return [row for row in rows if row["state"] == "READY" or not only_ready]

    def _row(self, name: str, version: str) -> dict[str, str]:
        model = self._models.get((name, version))
        state, reason = ("UNAVAILABLE", "") if model is None else (model.state, model.why)
        try:
            facts = self.repository.facts(name, version)
            if model is not None and state == "READY" and model.facts.stamp != facts.stamp:
                reason = "its folder has changed; load it to use what it has now"
        except Problem as problem:
            reason = reason or problem.why
        return {"name": name, "version": version, "state": state, "reason": reason}

    async def close(self) -> None:
        """Ends all jobs."""
        await self.link.close()

    def _lose_jobs(self) -> None:
        for model in self._models.values():
            model.lose_job()

    def statistics(self, name: str | None, version: str | None) -> dict[str, Any]:
        models = self.loaded() if name is None else [self.model(name, version)]
        told = [m.counts.told(m.facts.name, m.facts.version) for m in models]
        return {"model_stats": told}

    async def begin(self) -> None:
        """Looks for the service, and loads the models whose model.toml says preload; what fails is
        in the index."""
        self.link.begin()
        self._making.begin()
        for name in self.repository.names():
            try:
                model = self.model(name)
            except Problem:
                continue
            if model.spec.preload:
                self.link.keep(asyncio.ensure_future(model.load()))
