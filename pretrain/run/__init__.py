"""What a run's folder holds.

``run_folder`` names it, locks it and reads its configuration back; ``provenance`` records where the run comes
from, by ``code_version`` the code; ``model_card`` describes the saved model.
"""
