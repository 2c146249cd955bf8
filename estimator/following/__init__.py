"""Jobs that run or ran: logs, remaining time, actual bills, own measurements."""
