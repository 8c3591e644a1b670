"""Loggers with a short, coloured first word for the level, as mxnet.log has them."""
from __future__ import annotations

import logging
import sys

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

CRITICAL, ERROR, WARNING = logging.CRITICAL, logging.ERROR, logging.WARNING
INFO, DEBUG, NOTSET = logging.INFO, logging.DEBUG, logging.NOTSET

_COLOURS = {DEBUG: "\x1b[32m", INFO: "\x1b[32m", WARNING: "\x1b[33m"}


class _Formatter(logging.Formatter):
    def __init__(self, coloured: bool) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        head = f"{record.levelname[0]}%(asctime)s %(process)d %(pathname)s:%(lineno)d] "
        if self.coloured:
            head = f"{_COLOURS.get(record.levelno, chr(27) + '[31m')}{head}\x1b[0m"
        self._style._fmt = head + "%(message)s"
        return super().format(record)


def get_logger(name: str | None = None, filename: str | None = None, filemode: str | None = None,
               level: int = WARNING) -> logging.Logger:
    """The logger `name` with one handler: the file where one is named, else stderr.

    Args:
        name: None is the root logger, which is left as it is.
        filename, filemode: write to this file, 'a' (default) or 'w'. level: the least level shown.

    >>> get_logger("an example").level == WARNING
    True
    """
    logger = logging.getLogger(name)
    if name is None or getattr(logger, "_minigluon", False):
        return logger
    logger._minigluon = True  # type: ignore[attr-defined]
    handler: logging.Handler
    if filename:
        handler = logging.FileHandler(filename, filemode or "a")
    else:
        handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(coloured=not filename and sys.stderr.isatty()))
    logger.addHandler(handler)
    logger.setLevel(level)
    return logger


getLogger = get_logger
