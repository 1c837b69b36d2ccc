"""What a run's folder holds.

``run_folder`` names it, locks it and reads its configuration back; ``provenance`` records where the run comes
from; ``model_card`` describes the saved model.
"""
