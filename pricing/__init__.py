"""The market: instance types, offers, live sources, the price store and spot risk."""
