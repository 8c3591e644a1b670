"""The Operator record: everything minigluon knows about one operator, in one place.

The Python signature of the body is the schema. Its first parameter is the array module ``xp``;
further positional parameters are arrays (``*name`` for any number, ``name=None`` for an optional
one); keyword-only parameters are attributes, whose annotations parse and check them. A body may
also name three services, which are handed to it and are not attributes: ``rng`` (the device's
random generator), ``training`` (bool: the forward runs for training), ``device``.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..base import ArgumentError, ArgumentValueError, ShapeError, did_you_mean
from .attrs import Parser, parser_for

__all__ = ["Attrs", "MaybeShape", "Operator", "find_operator", "operator", "registry"]

Attrs = dict[str, Any]
MaybeShape = tuple[int, ...] | None
Shapes = list[MaybeShape]
DTypes = list[str | None]
InferShape = Callable[..., tuple[Shapes, Shapes]]
InferDType = Callable[[DTypes, Attrs], tuple[DTypes, DTypes]]

_SERVICES = ("rng", "training", "device")

# Attributes that MXNet's operators have, and the values with which they change nothing here.
_IDLE: dict[str, tuple[Any, ...]] = {
    "is_int": (True, False), "max_calib_range": (None,), "min_calib_range": (None,),
    "sparse_grad": (True, False), "use_length": (None, False),
}

registry: dict[str, Operator] = {}


def _argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's positional arguments, at a tenth of the cost of a Signature."""
    code = getattr(function, "__code__", None)
    if code is None:
        return tuple(inspect.signature(function).parameters)
    return tuple(code.co_varnames[:code.co_argcount])


def _shape_rule(name: str, infer: InferShape) -> InferShape:
    """`infer` as ``rule(shapes, attrs, outs=None)``, whose errors name the operator."""
    takes_outs = "outs" in _argument_names(infer)

    def rule(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> tuple[Shapes, Shapes]:
        try:
            return infer(shapes, attrs, outs) if takes_outs else infer(shapes, attrs)
        except (ShapeError, ArgumentValueError) as error:
            if str(error).startswith(name):
                raise
            raise type(error)(f"{name}: {error}") from None

    return rule


_annotations: dict[tuple[str, str], Any] = {}


def _annotation(text: Any, scope: dict[str, Any]) -> Any:
    """What an annotation means in its module; few different ones serve all operators."""
    if not isinstance(text, str):
        return Any if text is inspect.Parameter.empty else text
    key = (scope["__name__"], text)
    if key not in _annotations:
        _annotations[key] = eval(text, scope)  # our own source, as typing.get_type_hints would
    return _annotations[key]


class Operator:
    """One operator.

    Attributes:
        name: MXNet's registry name ('FullyConnected', 'broadcast_add'); hidden ones start with '_'.
        aliases: further names under which ``nd``/``sym``/JSON know it.
        methods: names under which NDArray and Symbol have it as a method.
        body: ``body(xp, *arrays, **attrs)`` -> array or tuple of arrays. The meaning.
        input_names: names of the array parameters in order (for a variadic one, its single name).
        variadic: the operator takes any number of arrays.
        defaults, required, parsers: attribute schema taken from the signature.
        infer: ``infer(shapes, attrs) -> (input shapes, output shapes)``; a shape is None (nothing
            known) or a tuple in which 0 is an unknown dimension; may fill unknown inputs in.
            Must raise ShapeError for a contradiction (its text need not name the operator). A
            third parameter ``outs`` (optional) is what is known of the outputs, for rules that
            also infer inputs from them; ``op.infer(shapes, attrs, outs=None)`` always takes it.
        infer_dtype: the same for element type names; None means "all inputs and outputs agree".
        gradient: ``gradient(F, dy, out, *inputs, **attrs) -> [gradient or None for each input]``,
            written only with functions of ``F``. `dy` and `out` are single values for an operator
            with one output, lists otherwise (an output that nothing used has dy None).
            None: not differentiable (reaching it in backward is an error); use
            ``rules.no_gradient`` for a zero gradient (comparisons, argmax).
        num_outputs / visible: how many arrays the body returns, how many the user sees.
        list_inputs: names of the inputs that are present for these attributes.
        mutates: names of inputs that the body writes to.
        small_steps: the body is many small matrix products in a row; threads inside one of them
            cost more than they bring.
        gives_stored: of dense inputs, too, it may make a row_sparse or csr array.
        forms: bodies for row_sparse and csr inputs (``ops/sparse`` hangs them here).
        aux: names of inputs that are auxiliary states in a symbol (running statistics).
        direct: ``direct(arrays, device)`` -> tuple, for a record that runs itself and needs
            nothing from dispatch (a compiled graph); else None.
    """

    direct: Callable[[Sequence[Any], Any], tuple[Any, ...]] | None = None
    forms: tuple[Any, ...] = ()
    programs: Any = None

    # read from the body's signature: see __getattr__
    attr_names: tuple[str, ...]
    defaults: Attrs
    input_names: tuple[str, ...]
    needs_device: bool
    needs_rng: bool
    needs_service: bool
    needs_training: bool
    optional_inputs: set[str]
    parsers: dict[str, Parser]
    required: tuple[str, ...]
    signature: inspect.Signature
    variadic: bool

    def __init__(
        self,
        name: str,
        body: Callable[..., Any],
        *,
        infer: InferShape | None = None,
        infer_dtype: InferDType | None = None,
        gradient: Callable[..., Sequence[Any]] | None = None,
        num_outputs: int | Callable[[Attrs], int] = 1,
        visible: int | Callable[[Attrs], int] | None = None,
        inputs: Callable[[Attrs], Sequence[str]] | None = None,
        mutates: Sequence[str] = (),
        aux: Sequence[str] = (),
        aliases: Sequence[str] = (),
        methods: Sequence[str] = (),
        output_names: Sequence[str] = ("output",),
        small_steps: bool = False,
        gives_stored: bool = False,
    ) -> None:
        self.name = name
        self.body = body
        self.infer = _shape_rule(name, infer) if infer else None
        self.infer_dtype = infer_dtype
        self.gradient = gradient
        self._num_outputs = num_outputs
        self._visible = num_outputs if visible is None else visible
        self._inputs = inputs
        self.mutates = tuple(mutates)
        self.aux = tuple(aux)
        self.aliases = tuple(aliases)
        self.methods = tuple(methods)
        self.output_names = tuple(output_names)
        self.small_steps = small_steps
        self.gives_stored = gives_stored
        self.single = num_outputs == 1
        self._shown: list[inspect.Parameter] | None = None

    def __getattr__(self, name: str) -> Any:
        """What the signature says is read when it is first asked for.

        A program uses a few dozen of the five hundred operators, and to read all of them would
        be a tenth of the time that importing takes.
        """
        if name not in Operator.__annotations__:
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        self._read_signature()
        return self.__dict__[name]

    def _read_signature(self) -> None:
        signature = inspect.signature(self.body)
        scope = self.body.__globals__
        arrays: list[str] = []
        optional: set[str] = set()
        variadic = False
        defaults: Attrs = {}
        required: list[str] = []
        parsers: dict[str, Parser] = {}
        services = []
        for parameter in list(signature.parameters.values())[1:]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                variadic = True
                arrays.append(parameter.name)
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                arrays.append(parameter.name)
                if parameter.default is None:
                    optional.add(parameter.name)
            elif parameter.name in _SERVICES and parameter.default is parameter.empty:
                services.append(parameter.name)
            else:
                annotation = _annotation(parameter.annotation, scope)
                parsers[parameter.name] = parser_for(self.name, parameter.name, annotation)
                if parameter.default is parameter.empty:
                    required.append(parameter.name)
                else:
                    defaults[parameter.name] = parameter.default
        # whole values only from here on: another thread may be reading
        self.optional_inputs, self.variadic = optional, variadic
        self.defaults, self.required, self.parsers = defaults, tuple(required), parsers
        self.input_names, self.attr_names = tuple(arrays), tuple(parsers)
        self.needs_rng = "rng" in services
        self.needs_training = "training" in services
        self.needs_device = "device" in services
        self.needs_service = bool(services)
        self.signature = signature

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return find_operator, (self.name,)

    # -- asking ---------------------------------------------------------------------------------

    def num_outputs(self, attrs: Attrs) -> int:
        """How many arrays the body returns for these attributes."""
        return self._num_outputs(attrs) if callable(self._num_outputs) else self._num_outputs

    def visible(self, attrs: Attrs) -> int:
        """How many of the outputs a user sees; the rest serve the gradient."""
        return self._visible(attrs) if callable(self._visible) else self._visible

    @property
    def doc(self) -> str:
        """The body's text, without the indentation."""
        return inspect.getdoc(self.body) or ""

    @property
    def names_inputs(self) -> bool:
        """Whether the record's ``inputs=`` says which inputs there are."""
        return self._inputs is not None

    def list_inputs(self, attrs: Attrs) -> tuple[str, ...]:
        """Names of the arrays these attributes ask for (a prefix of `input_names`).

        Optional inputs (``name=None`` in the body) belong to it only where the record's
        ``inputs=`` says so. For a variadic operator: those there must be at least.
        """
        if self._inputs is not None:
            return tuple(self._inputs(attrs))
        return tuple(name for name in self.input_names if name not in self.optional_inputs)

    # -- reading a call -------------------------------------------------------------------------

    def parse(self, given: Attrs) -> Attrs:
        """Complete, checked attributes from what a caller or a file gave."""
        if not given:
            attrs = self.defaults
        else:
            attrs = dict(self.defaults)
            parsers = self.parsers
            for name, value in given.items():
                try:
                    attrs[name] = parsers[name](value)
                except KeyError:
                    if value not in _IDLE.get(name, ()):
                        raise self._unknown(name) from None
        for name in self.required:
            if name not in attrs:
                raise ArgumentError(
                    f"{self.name}: missing required argument '{name}'; signature: {self.usage()}"
                )
        return attrs

    def _unknown(self, name: str) -> ArgumentError:
        known = (*self.input_names, *self.attr_names)
        return ArgumentError(
            f"{self.name}: unknown argument '{name}'{did_you_mean(name, known)} "
            f"(signature: {self.usage()})"
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Attrs]:
        """Split a call into (arrays in order, complete attributes).

        Positional arguments fill the arrays first, then the attributes in their order, as
        generated MXNet functions allow: ``nd.clip(x, 0, 1)``. The returned attributes may be the
        shared defaults: do not change them. A missing array is left out of the list when it is a
        trailing one and is None when it is not; the face decides what that means.
        """
        if self.variadic:
            if len(args) == 1 and isinstance(args[0], (list, tuple)):
                args = tuple(args[0])
            key = self.input_names[-1]
            if key in kwargs:
                args = (*args, *kwargs.pop(key))
            if "num_args" in kwargs and "num_args" not in self.parsers:
                kwargs.pop("num_args")  # MXNet's files say the count; here it is the list's own
            attrs = self.parse(kwargs)
            if not args and self.list_inputs(attrs):
                raise ArgumentError(f"{self.name}: expected at least one array for '{key}', got "
                                    f"none; signature: {self.usage()}")
            return list(args), attrs
        names = self.input_names
        count = len(names)
        arrays = list(args[:count])
        if kwargs:
            given = {}
            for key, value in kwargs.items():
                if key in names:
                    place = names.index(key)
                    while len(arrays) <= place:
                        arrays.append(None)
                    if place < len(args):
                        raise ArgumentError(f"{self.name}: '{key}' given twice")
                    arrays[place] = value
                else:
                    given[key] = value
        else:
            given = kwargs
        if len(args) > count:
            extra = args[count:]
            if len(extra) > len(self.attr_names):
                raise ArgumentError(
                    f"{self.name}: {len(args)} positional arguments are too many; "
                    f"signature: {self.usage()}"
                )
            given = dict(given)
            for name, value in zip(self.attr_names, extra, strict=False):
                if name in given:
                    raise ArgumentError(f"{self.name}: '{name}' given twice")
                given[name] = value
        while arrays and arrays[-1] is None:
            arrays.pop()
        attrs = self.parse(given)
        if self._inputs is not None and any(array is None for array in arrays):
            # a gap for an input that these attributes do not have: those behind it move up
            wanted = self._inputs(attrs)
            arrays = [array for name, array in zip(names, arrays, strict=False)
                      if array is not None or name in wanted]
        return arrays, attrs

    def check_inputs(self, arrays: Sequence[Any], attrs: Attrs) -> None:
        """Complain about arrays that are missing or too many for these attributes."""
        if self.variadic:
            return
        wanted = self.list_inputs(attrs)
        for place, name in enumerate(wanted):
            if place >= len(arrays) or arrays[place] is None:
                raise ArgumentError(
                    f"{self.name}: missing input '{name}'; signature: {self.usage()}"
                )
        if len(arrays) > len(wanted) and not self.optional_inputs:
            raise ArgumentError(
                f"{self.name}: expected {len(wanted)} arrays ({', '.join(wanted)}), "
                f"got {len(arrays)}"
            )

    # -- showing --------------------------------------------------------------------------------

    def public_parameters(self) -> list[inspect.Parameter]:
        """The parameters a user sees: arrays, then attributes (services left out)."""
        if self._shown is None:
            self._shown = [
                parameter.replace(annotation=parameter.empty)
                for parameter in list(self.signature.parameters.values())[1:]
                if parameter.name not in _SERVICES or parameter.name in self.parsers
            ]
        return list(self._shown)

    def usage(self) -> str:
        """One line for messages and help: ``Pooling(data, *, kernel, pool_type='max')``."""
        return f"{self.name}{inspect.Signature(self.public_parameters())}"


def operator(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Operator]:
    """Decorator that enters a body as operator `name`; `settings` are those of Operator.

    >>> @operator("_doc_double", gradient=lambda F, dy, out, x: [F._mul_scalar(dy, scalar=2)])
    ... def double(xp, x):
    ...     '''Twice the input.'''
    ...     return x * 2
    >>> double.usage()
    '_doc_double(x)'
    >>> del registry["_doc_double"]
    """

    def enter(body: Callable[..., Any]) -> Operator:
        record = Operator(name, body, **settings)
        names = (name, *record.aliases)
        for key in names:
            if key in registry:
                raise ValueError(f"operator name '{key}' is taken by {registry[key]!r}")
        registry.update(dict.fromkeys(names, record))
        return record

    return enter


def find_operator(name: str) -> Operator:
    """The operator called `name`; an ArgumentError with a suggestion otherwise."""
    try:
        return registry[name]
    except KeyError:
        raise ArgumentError(f"no operator '{name}'{did_you_mean(name, registry)}") from None
