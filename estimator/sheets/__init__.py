"""Spreadsheets: cells, tables, filled sheets and workbooks, all from the same plans as every other face."""

from estimator.sheets.answers import Answer, Answers, Market, market_at, question_of
from estimator.sheets.safety import neutral

__all__ = ["Answer", "Answers", "Market", "market_at", "neutral", "question_of"]
