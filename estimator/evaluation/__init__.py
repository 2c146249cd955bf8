"""How far off are the predictions, on data that was not fitted?"""
