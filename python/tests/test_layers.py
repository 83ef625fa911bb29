# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checks what each module of the package may import and access. Reads the source; needs no PyTorch."""

import ast
import os
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

# From the top. A module may import modules of the lines below it, and of its own line or package if they do not import it.
# A name stands for a module, or for all modules of a package.
LAYERS = (
    ("kolo.integrations.accelerate", "kolo.integrations.lightning", "kolo.integrations.transformers"),
    ("kolo.integrations.lightning.strategy",),
    ("kolo.integrations.lightning.environment", "kolo.integrations.lightning.loops", "kolo.integrations.lightning.training"),
    ("kolo.integrations.lightning.checks", "kolo.integrations.lightning.loggers"),
    ("kolo.integrations.processes", "kolo.integrations.samplers", "kolo.integrations.streams"),
    ("kolo.integrations.batches",),
    ("kolo.torch",),
    ("kolo.torch.alone", "kolo.torch.parallel", "kolo.torch.run", "kolo.torch.handlers"),
    ("kolo.torch.session",),
    ("kolo.torch.phases",),
    ("kolo.torch.background", "kolo.torch.broadcast"),  # two ways to send the state, which do not know each other
    ("kolo.torch.group",),
    ("kolo.torch.state",),
    ("kolo.torch.adaptive",),
    ("kolo.torch.backends", "kolo.torch.batch", "kolo.torch.meshes", "kolo.torch.place", "kolo.torch.reporting", "kolo.torch.sampler"),
    ("kolo.torch.context",),
    ("kolo.torch.compat", "kolo.torch.log"),
    ("kolo.launch", "kolo.rendezvous"),
    ("kolo.environments",),
    ("kolo.addresses", "kolo.orphans", "kolo.worker"),
    ("kolo", "kolo.integrations"),
    ("kolo.hold",),
    ("kolo.imports", "kolo.stacks", "kolo.store"),
)
PACKAGES = {"kolo.torch.adaptive", "kolo.torch.background", "kolo.torch.broadcast", "kolo.torch.group", "kolo.torch.state"}

# Pure rules, which need neither PyTorch nor a network, and are tested alone.
PURE = {"kolo.integrations.batches",
        "kolo.torch.adaptive.noise", "kolo.torch.adaptive.rules", "kolo.torch.adaptive.sizes", "kolo.torch.state.ledger", "kolo.torch.state.ranges",
        "kolo.torch.group.roles", "kolo.torch.background.pace", "kolo.torch.log"}

# The private names of other objects that a module may access: those of its own classes, and others if there is no public way.
ALLOWED = {
    "kolo.stacks": {"_current_frames"},  # of sys, documented by Python: it has no other way to read the stacks of all threads
    "kolo.integrations.accelerate": {"_set_sync_gradients", "_remove_dataloader"},  # GradientState's, as the Trainer of Transformers uses it
    "kolo.integrations.lightning": {  # Lightning's: its loops have no public part
        "_DataLoaderIterDataFetcher", "_EvaluationLoop", "_FitLoop", "_Launcher", "_Loop", "_MockOptimizer", "_TrainingEpochLoop", "_accelerator_connector",
        "_auto_add_worker_init_fn", "_average_model", "_batches_that_stepped", "_call_callbacks_load_state_dict", "_call_callbacks_state_dict",
        "_callback_metrics", "_combined_loader", "_current_fx", "_data_connector", "_data_source", "_device_mesh", "_experiment", "_first_loop_iter",
        "_layer_sync", "_loaded_from_state_dict", "_log_hyperparams", "_logger_connector", "_mode", "_on_evaluation_model_train", "_pl_static_graph_delay_done",
        "_request_dataloader", "_results", "_select_data_fetcher", "_should_accumulate", "_should_check_val_epoch", "_signal_connector",
        "_val_check_time_interval", "_version", "_wrap_closure"},
    "kolo.integrations.processes": {"_shared_state"},  # Accelerate's: written for each group
    "kolo.integrations.transformers": {
        "_kolo", "_n_gpu", "_models", "_created_lr_scheduler", "_init_training_state", "_load_from_checkpoint", "_remove_unused_columns",
        "_get_collator_with_removed_columns", "_get_train_sampler", "_tr_loss", "_total_loss_scalar", "_globalstep_last_logged",
        "_initial_global_step"},  # Trainer's
    "kolo.launch": {"_shutdown", "_run_exitfuncs", "_exit",  # Python's: how it ends
                    "_global_optimizer_post_hooks", "_dynamo"},  # PyTorch's: kolo.torch must not be imported before the script
    "kolo.torch.background.observer": {"_make"},  # NamedTuple's, which is documented
    "kolo.torch.state.encoding": {"_dict", "_list", "_made", "_ordered", "_take", "_text"},  # _Reader's, in a table
    "kolo.torch.state.sharded": {"_names", "_run", "_since", "_stepped", "_unmovable"},  # Sharded's: its handler reads and sets them
    "kolo.torch.state.state": {"_core"},  # State's: core_of returns it
}


def modules():
    """Returns the source of each module, by name."""
    found = {}
    for directory, _, files in os.walk(os.path.join(ROOT, "kolo")):
        for file in files:
            if file.endswith(".py"):
                name = os.path.relpath(os.path.join(directory, file), ROOT)[:-3].replace(os.sep, ".")
                with open(os.path.join(directory, file), encoding="utf-8") as text:
                    found[name[:-9] if name.endswith(".__init__") else name] = ast.parse(text.read())
    return found


MODULES = modules()


def imported(name, tree):
    """Returns all imports of a module, also those within functions, with full names of this package's modules."""
    package = name if name in ("kolo", "kolo.torch", "kolo.integrations", "kolo.integrations.lightning") or name in PACKAGES else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            base = ".".join([*above[:len(above) - node.level + 1], *([node.module] if node.module else [])]) if node.level else node.module
            for alias in node.names:
                whole = base + "." + alias.name
                yield whole if whole in MODULES else base


IMPORTS = {name: set(imported(name, tree)) for name, tree in MODULES.items()}


def layer(name):
    """Returns the number of a module's layer, and the name in that layer that covers the module."""
    for number, names in enumerate(LAYERS):
        for one in names:
            if name == one or one in PACKAGES and name.startswith(one + "."):
                return number, one
    raise AssertionError("%s is in no layer" % name)


class Layers(unittest.TestCase):
    def test_every_module_has_one(self):
        for name in MODULES:
            layer(name)

    def test_no_import_leads_up(self):
        for name, others in IMPORTS.items():
            at, own = layer(name)
            for other in others & set(MODULES):
                below, theirs = layer(other)
                level = below == at and (own == theirs or not PACKAGES & {own, theirs})
                self.assertTrue(below > at or level, "%s imports %s" % (name, other))

    def test_no_circle(self):
        done = set()

        def visit(name, path):
            self.assertNotIn(name, path, "modules import each other: %s" % " ".join([*path, name]))
            if name not in done:
                for other in sorted(IMPORTS[name] & set(MODULES)):
                    visit(other, [*path, name])
                done.add(name)

        for name in MODULES:
            visit(name, [])

    def test_packages_import_nothing(self):
        """Otherwise, importing one module of a package would import all of them."""
        for name in PACKAGES:
            self.assertEqual(set(), IMPORTS[name], name)

    def test_pure_modules(self):
        for name in PURE:
            foreign = {other for other in IMPORTS[name] if other.split(".")[0] in ("torch", "socket")}
            self.assertEqual(set(), foreign, name)
            self.assertLessEqual(IMPORTS[name] & set(MODULES), PURE | {"kolo.worker"}, name)

    def test_the_public_module_has_names_only(self):
        for node in MODULES["kolo.torch"].body:
            self.assertTrue(isinstance(node, (ast.ImportFrom, ast.Expr)) or isinstance(node, ast.Assign) and node.targets[0].id == "__all__")


def private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def touched(tree):
    """Returns the private names of other objects and modules that a module uses, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls", "super")):
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr", "hasattr", "delattr"):
            for argument in node.args[1:2]:
                if isinstance(argument, ast.Constant) and private(str(argument.value)):
                    yield argument.value, node.lineno
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            for part in (part for name in names for part in name.split(".")):
                if private(part):
                    yield part, node.lineno


class Private(unittest.TestCase):
    def test_only_the_owner_touches_it(self):
        """Private names of PyTorch are used only in compat."""
        for name, tree in MODULES.items():
            if name == "kolo.torch.compat":
                continue
            allowed = ALLOWED.get(name) or ALLOWED.get(name.rpartition(".")[0], set())
            for attribute, line in touched(tree):
                self.assertIn(attribute, allowed, "%s, line %d" % (name, line))

    def test_only_context_keeps_anything(self):
        """Process-wide state is only in context."""
        for name, tree in MODULES.items():
            for node in ast.walk(tree):
                self.assertNotIsInstance(node, ast.Global, "%s, line %d" % (name, getattr(node, "lineno", 0)))
                if isinstance(node, ast.Name) and name.startswith("kolo.torch"):
                    self.assertNotIn(node.id, ("cache", "lru_cache"), name)


if __name__ == "__main__":
    unittest.main()
