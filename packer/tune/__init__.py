"""Tuning: times measured on a device overrule the cost model of its target.

What there is to measure for a network and in which order (candidates.py), a program around one piece of it (probe.py),
the loop over both (campaign.py), and the file that keeps the times (records.py) for later packing (measured.py).
"""

from packer.tune.campaign import Campaign, CampaignReport, Measure, PlanTimes
from packer.tune.measured import Measured
from packer.tune.records import Calibration, Record, Records, RecordsError, default_path

__all__ = [
    "Calibration",
    "Campaign",
    "CampaignReport",
    "Measure",
    "Measured",
    "PlanTimes",
    "Record",
    "Records",
    "RecordsError",
    "default_path",
]
